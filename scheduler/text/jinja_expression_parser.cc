#include "scheduler/text/jinja_expression_parser.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_parser.h"

namespace octavo::jinja {

ExpressionParser::ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  for (const char* name : {"loop", "caller", "varargs", "kwargs"}) Intern(name);
}

const Token& ExpressionParser::Peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token ExpressionParser::Next() {
  Token token = Peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::SkipName(absl::string_view name) {
  if (!Peek().IsName(name)) return false;
  Next();
  return true;
}

bool ExpressionParser::SkipOperator(absl::string_view op) {
  if (!Peek().IsOperator(op)) return false;
  Next();
  return true;
}

absl::Status ExpressionParser::Unexpected(absl::string_view wanted) const {
  const Token& token = Peek();
  std::string found;
  switch (token.type) {
    case TokenType::kEnd:
      found = "the end of the template";
      break;
    case TokenType::kVariableEnd:
    case TokenType::kBlockEnd:
      found = "the end of the tag";
      break;
    case TokenType::kData:
    case TokenType::kVariableBegin:
    case TokenType::kBlockBegin:
      found = "text";
      break;
    default:
      found = absl::StrCat("'", token.text.substr(0, 40), "'");
  }
  return SyntaxError(token.line, absl::StrCat("expected ", wanted, ", got ", found));
}

absl::Status ExpressionParser::Expect(TokenType type, absl::string_view what) {
  if (Peek().type != type) return Unexpected(what);
  Next();
  return absl::OkStatus();
}

absl::Status ExpressionParser::ExpectOperator(absl::string_view op) {
  if (!SkipOperator(op)) return Unexpected(absl::StrCat("'", op, "'"));
  return absl::OkStatus();
}

Symbol ExpressionParser::Intern(absl::string_view name) {
  const auto [it, is_new] =
      symbol_of_.try_emplace(std::string(name), static_cast<Symbol>(symbols_.size()));
  if (is_new) symbols_.emplace_back(name);
  return it->second;
}

absl::Status ExpressionParser::Nesting::Check() const {
  if (parser_->depth_ <= kMaxParseDepth) return absl::OkStatus();
  return SyntaxError(parser_->Peek().line,
                     absl::StrCat("nested deeper than the limit of ", kMaxParseDepth));
}

std::unique_ptr<Expr> ExpressionParser::Make(ExprOp op, int line) const {
  auto node = std::make_unique<Expr>();
  node->op = op;
  node->line = line;
  return node;
}

ExpressionParser::Result ExpressionParser::Finish(std::unique_ptr<Expr> node) const {
  const auto raise = [&](const ExprPtr& child) {
    if (child != nullptr) node->height = std::max(node->height, 1 + child->height);
  };
  for (const ExprPtr& arg : node->args) raise(arg);
  for (const auto& [name, value] : node->kwargs) raise(value);
  raise(node->star_args);
  raise(node->star_kwargs);
  if (node->height > kMaxExpressionHeight) {
    return SyntaxError(node->line, absl::StrCat("expression of more than ", kMaxExpressionHeight,
                                                " nested operations"));
  }
  return ExprPtr(std::move(node));
}

ExpressionParser::Result ExpressionParser::MakeBinary(ExprOp op, std::string name, ExprPtr left,
                                                      ExprPtr right, int line) const {
  std::unique_ptr<Expr> node = Make(op, line);
  node->name = std::move(name);
  node->args.push_back(std::move(left));
  node->args.push_back(std::move(right));
  return Finish(std::move(node));
}

bool ExpressionParser::AtTupleEnd() const {
  const Token& token = Peek();
  return token.type == TokenType::kVariableEnd || token.type == TokenType::kBlockEnd ||
         token.type == TokenType::kEnd || token.IsOperator(")");
}

ExpressionParser::Result ExpressionParser::ParseTuple(bool with_condition, bool in_parentheses) {
  const int line = Peek().line;
  std::unique_ptr<Expr> tuple = Make(ExprOp::kTuple, line);
  bool is_tuple = false;
  while (!AtTupleEnd()) {
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr item, with_condition ? ParseExpression() : ParseOr());
    tuple->args.push_back(std::move(item));
    if (!SkipOperator(",")) break;
    is_tuple = true;
  }
  if (is_tuple || (in_parentheses && tuple->args.empty())) return Finish(std::move(tuple));
  if (tuple->args.empty()) return Unexpected("an expression");
  return std::move(tuple->args[0]);
}

ExpressionParser::Result ExpressionParser::ParseExpression() {
  const Nesting nesting(this);
  OCTAVO_RETURN_IF_ERROR(nesting.Check());
  return ParseCondition();
}

ExpressionParser::Result ExpressionParser::ParseCondition() {
  const int line = Peek().line;
  OCTAVO_ASSIGN_OR_RETURN(ExprPtr node, ParseOr());
  while (SkipName("if")) {
    std::unique_ptr<Expr> cond = Make(ExprOp::kCond, line);
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr test, ParseOr());
    ExprPtr otherwise;
    if (SkipName("else")) {
      OCTAVO_ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    cond->args.push_back(std::move(test));
    cond->args.push_back(std::move(node));
    cond->args.push_back(std::move(otherwise));
    OCTAVO_ASSIGN_OR_RETURN(node, Finish(std::move(cond)));
  }
  return node;
}

ExpressionParser::Result ExpressionParser::ParseOr() {
  const int line = Peek().line;
  OCTAVO_ASSIGN_OR_RETURN(ExprPtr left, ParseAnd());
  while (SkipName("or")) {
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr right, ParseAnd());
    OCTAVO_ASSIGN_OR_RETURN(left,
                            MakeBinary(ExprOp::kOr, "or", std::move(left), std::move(right), line));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseAnd() {
  const int line = Peek().line;
  OCTAVO_ASSIGN_OR_RETURN(ExprPtr left, ParseNot());
  while (SkipName("and")) {
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr right, ParseNot());
    OCTAVO_ASSIGN_OR_RETURN(
        left, MakeBinary(ExprOp::kAnd, "and", std::move(left), std::move(right), line));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseNot() {
  const int line = Peek().line;
  if (!SkipName("not")) return ParseCompare();
  const Nesting nesting(this);
  OCTAVO_RETURN_IF_ERROR(nesting.Check());
  OCTAVO_ASSIGN_OR_RETURN(ExprPtr operand, ParseNot());
  std::unique_ptr<Expr> node = Make(ExprOp::kNot, line);
  node->args.push_back(std::move(operand));
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseCompare() {
  static constexpr std::array<absl::string_view, 6> kComparisons = {"==", "!=", "<",
                                                                    "<=", ">",  ">="};
  std::unique_ptr<Expr> node = Make(ExprOp::kCompare, Peek().line);
  OCTAVO_ASSIGN_OR_RETURN(ExprPtr operand, ParseSum());
  while (true) {
    std::string op;
    if (Peek().type == TokenType::kOperator &&
        std::find(kComparisons.begin(), kComparisons.end(), Peek().text) != kComparisons.end()) {
      op = Next().text;
    } else if (SkipName("in")) {
      op = "in";
    } else if (Peek().IsName("not") && Peek(1).IsName("in")) {
      Next();
      Next();
      op = "notin";
    } else {
      break;
    }
    node->args.push_back(std::move(operand));
    node->names.push_back(std::move(op));
    OCTAVO_ASSIGN_OR_RETURN(operand, ParseSum());
  }
  if (node->args.empty()) return operand;
  node->args.push_back(std::move(operand));
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseSum() {
  const int line = Peek().line;
  OCTAVO_ASSIGN_OR_RETURN(ExprPtr left, ParseConcat());
  while (Peek().IsOperator("+") || Peek().IsOperator("-")) {
    std::string op = Next().text;
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr right, ParseConcat());
    OCTAVO_ASSIGN_OR_RETURN(
        left, MakeBinary(ExprOp::kBinary, std::move(op), std::move(left), std::move(right), line));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseConcat() {
  std::unique_ptr<Expr> node = Make(ExprOp::kConcat, Peek().line);
  do {
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr part, ParseProduct());
    node->args.push_back(std::move(part));
  } while (SkipOperator("~"));
  if (node->args.size() == 1) return std::move(node->args[0]);
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseProduct() {
  const int line = Peek().line;
  OCTAVO_ASSIGN_OR_RETURN(ExprPtr left, ParsePower());
  while (Peek().IsOperator("*") || Peek().IsOperator("/") || Peek().IsOperator("//") ||
         Peek().IsOperator("%")) {
    std::string op = Next().text;
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr right, ParsePower());
    OCTAVO_ASSIGN_OR_RETURN(
        left, MakeBinary(ExprOp::kBinary, std::move(op), std::move(left), std::move(right), line));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParsePower() {
  const int line = Peek().line;
  OCTAVO_ASSIGN_OR_RETURN(ExprPtr left, ParseUnary(true));
  while (SkipOperator("**")) {
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr right, ParseUnary(true));
    OCTAVO_ASSIGN_OR_RETURN(
        left, MakeBinary(ExprOp::kBinary, "**", std::move(left), std::move(right), line));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseUnary(bool with_filters) {
  const int line = Peek().line;
  ExprPtr node;
  if (Peek().IsOperator("-") || Peek().IsOperator("+")) {
    const Nesting nesting(this);
    OCTAVO_RETURN_IF_ERROR(nesting.Check());
    std::unique_ptr<Expr> sign = Make(Next().text == "-" ? ExprOp::kNeg : ExprOp::kPos, line);
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary(false));
    sign->args.push_back(std::move(operand));
    OCTAVO_ASSIGN_OR_RETURN(node, Finish(std::move(sign)));
  } else {
    OCTAVO_ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  OCTAVO_ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  return with_filters ? ParseFilters(std::move(node)) : Result(std::move(node));
}

}  // namespace octavo::jinja
