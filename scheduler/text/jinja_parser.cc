#include "scheduler/text/jinja_parser.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_expression_parser.h"
#include "scheduler/text/jinja_lexer.h"

namespace octavo::jinja {
namespace {

using StmtPtr = std::unique_ptr<const Stmt>;

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<Template> Run() {
    Template result;
    OCTAVO_ASSIGN_OR_RETURN(result.body, ParseBody({}));
    result.symbols = tokens_.TakeSymbols();
    return result;
  }

 private:
  using Result = absl::StatusOr<StmtPtr>;

  // Statements up to a tag that starts with one of `ends`; stays at that name. With no ends, up to
  // the end of the template.
  absl::StatusOr<Body> ParseBody(const std::vector<absl::string_view>& ends) {
    const ExpressionParser::Nesting nesting(&tokens_);
    OCTAVO_RETURN_IF_ERROR(nesting.Check());
    Body body;
    while (tokens_.Peek().type != TokenType::kEnd) {
      const Token token = tokens_.Next();
      auto statement = std::make_unique<Stmt>();
      statement->line = token.line;
      if (token.type == TokenType::kData) {
        statement->kind = StmtKind::kText;
        statement->text = Text::Literal(token.text);
        body.push_back(std::move(statement));
      } else if (token.type == TokenType::kVariableBegin) {
        statement->kind = StmtKind::kOutput;
        OCTAVO_ASSIGN_OR_RETURN(statement->expr, tokens_.ParseTuple(true));
        OCTAVO_RETURN_IF_ERROR(tokens_.Expect(TokenType::kVariableEnd, "}}"));
        body.push_back(std::move(statement));
      } else {
        for (const absl::string_view end : ends) {
          if (tokens_.Peek().IsName(end)) return body;
        }
        OCTAVO_ASSIGN_OR_RETURN(StmtPtr parsed, ParseStatement(std::move(statement)));
        OCTAVO_RETURN_IF_ERROR(tokens_.Expect(TokenType::kBlockEnd, "%}"));
        body.push_back(std::move(parsed));
      }
    }
    if (!ends.empty()) return tokens_.Unexpected(absl::StrCat("{% ", ends.back(), " %}"));
    return body;
  }

  // The rest of an opening tag, its body, and the name of the closing tag.
  absl::Status ParseBlock(const std::vector<absl::string_view>& ends, Body* body) {
    tokens_.SkipOperator(":");
    OCTAVO_RETURN_IF_ERROR(tokens_.Expect(TokenType::kBlockEnd, "%}"));
    OCTAVO_ASSIGN_OR_RETURN(*body, ParseBody(ends));
    return absl::OkStatus();
  }
  absl::Status ParseBlock(absl::string_view end, Body* body) {
    OCTAVO_RETURN_IF_ERROR(ParseBlock(std::vector<absl::string_view>{end}, body));
    tokens_.Next();
    return absl::OkStatus();
  }

  Result ParseStatement(std::unique_ptr<Stmt> statement) {
    if (tokens_.Peek().type != TokenType::kName) return tokens_.Unexpected("the name of a tag");
    const Token tag = tokens_.Next();
    if (tag.text == "if") return ParseIf(std::move(statement));
    if (tag.text == "for") return ParseFor(std::move(statement));
    if (tag.text == "set") return ParseSet(std::move(statement));
    if (tag.text == "macro") return ParseMacro(std::move(statement));
    if (tag.text == "call") return ParseCallBlock(std::move(statement));
    if (tag.text == "with") return ParseWith(std::move(statement));
    if (tag.text == "filter") {
      statement->kind = StmtKind::kFilterBlock;
      OCTAVO_ASSIGN_OR_RETURN(statement->expr, tokens_.ParseFilterChain(true));
      OCTAVO_RETURN_IF_ERROR(ParseBlock("endfilter", &statement->body));
      return StmtPtr(std::move(statement));
    }
    if (tag.text == "generation") {
      // Hugging Face marks the model's own turns for training; rendering sees a block with a scope.
      statement->kind = StmtKind::kScope;
      OCTAVO_RETURN_IF_ERROR(ParseFunctionBody("endgeneration", &statement->body));
      return StmtPtr(std::move(statement));
    }
    if (tag.text == "break" || tag.text == "continue") {
      if (open_loops_ == 0) {
        return SyntaxError(tag.line, absl::StrCat("'", tag.text, "' outside of a loop"));
      }
      statement->kind = tag.text == "break" ? StmtKind::kBreak : StmtKind::kContinue;
      return StmtPtr(std::move(statement));
    }
    return SyntaxError(tag.line, absl::StrCat("unknown or unsupported tag '", tag.text, "'"));
  }

  Result ParseIf(std::unique_ptr<Stmt> statement) {
    statement->kind = StmtKind::kIf;
    while (true) {
      Stmt::Branch branch;
      OCTAVO_ASSIGN_OR_RETURN(branch.test, tokens_.ParseTuple(false));
      OCTAVO_RETURN_IF_ERROR(ParseBlock({"elif", "else", "endif"}, &branch.body));
      statement->branches.push_back(std::move(branch));
      if (tokens_.SkipName("elif")) continue;
      if (!tokens_.SkipName("else")) {
        tokens_.Next();
        return StmtPtr(std::move(statement));
      }
      Stmt::Branch otherwise;
      OCTAVO_RETURN_IF_ERROR(ParseBlock("endif", &otherwise.body));
      statement->branches.push_back(std::move(otherwise));
      return StmtPtr(std::move(statement));
    }
  }

  Result ParseFor(std::unique_ptr<Stmt> statement) {
    statement->kind = StmtKind::kFor;
    OCTAVO_ASSIGN_OR_RETURN(statement->target, tokens_.ParseTarget(false));
    if (!tokens_.SkipName("in")) return tokens_.Unexpected("'in'");
    OCTAVO_ASSIGN_OR_RETURN(statement->expr, tokens_.ParseTuple(false));
    if (tokens_.SkipName("if")) {
      OCTAVO_ASSIGN_OR_RETURN(statement->test, tokens_.ParseExpression());
    }
    if (tokens_.Peek().IsName("recursive")) {
      return SyntaxError(tokens_.Peek().line, "recursive loops are not supported");
    }
    ++open_loops_;
    OCTAVO_RETURN_IF_ERROR(ParseBlock({"else", "endfor"}, &statement->body));
    --open_loops_;
    if (!tokens_.SkipName("else")) {
      tokens_.Next();
      return StmtPtr(std::move(statement));
    }
    OCTAVO_RETURN_IF_ERROR(ParseBlock("endfor", &statement->orelse));
    return StmtPtr(std::move(statement));
  }

  Result ParseSet(std::unique_ptr<Stmt> statement) {
    OCTAVO_ASSIGN_OR_RETURN(statement->target, tokens_.ParseTarget(true));
    if (tokens_.SkipOperator("=")) {
      statement->kind = StmtKind::kSet;
      OCTAVO_ASSIGN_OR_RETURN(statement->expr, tokens_.ParseTuple(true));
      return StmtPtr(std::move(statement));
    }
    statement->kind = StmtKind::kSetBlock;
    OCTAVO_ASSIGN_OR_RETURN(statement->expr, tokens_.ParseFilterChain(false));
    OCTAVO_RETURN_IF_ERROR(ParseBlock("endset", &statement->body));
    return StmtPtr(std::move(statement));
  }

  Result ParseWith(std::unique_ptr<Stmt> statement) {
    statement->kind = StmtKind::kWith;
    while (tokens_.Peek().type != TokenType::kBlockEnd) {
      if (!statement->assignments.empty()) OCTAVO_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      Stmt::Assignment assignment;
      OCTAVO_ASSIGN_OR_RETURN(assignment.target, tokens_.ParseTarget(false));
      OCTAVO_RETURN_IF_ERROR(tokens_.ExpectOperator("="));
      OCTAVO_ASSIGN_OR_RETURN(assignment.value, tokens_.ParseExpression());
      statement->assignments.push_back(std::move(assignment));
    }
    OCTAVO_RETURN_IF_ERROR(ParseBlock("endwith", &statement->body));
    return StmtPtr(std::move(statement));
  }

  absl::Status ParseSignature(MacroDef* macro) {
    OCTAVO_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
    while (!tokens_.Peek().IsOperator(")")) {
      if (!macro->params.empty()) OCTAVO_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (tokens_.Peek().type != TokenType::kName) return tokens_.Unexpected("a parameter");
      MacroDef::Param param;
      const int line = tokens_.Peek().line;
      param.name = tokens_.Next().text;
      param.symbol = tokens_.Intern(param.name);
      for (const MacroDef::Param& other : macro->params) {
        if (other.symbol == param.symbol) {
          return SyntaxError(line, absl::StrCat("repeated parameter ", param.name));
        }
      }
      if (macro->params.size() == kMaxParameters) {
        return SyntaxError(line,
                           absl::StrCat("more than the limit of ", kMaxParameters, " parameters"));
      }
      if (tokens_.SkipOperator("=")) {
        OCTAVO_ASSIGN_OR_RETURN(param.default_value, tokens_.ParseExpression());
      } else if (!macro->params.empty() && macro->params.back().default_value != nullptr) {
        return SyntaxError(line, "parameter without a default after one with a default");
      }
      macro->params.push_back(std::move(param));
    }
    return tokens_.ExpectOperator(")");
  }

  // A body that Jinja compiles to a function of its own: loops around it cannot be left from it.
  absl::Status ParseFunctionBody(absl::string_view end, Body* body) {
    const int outer_loops = std::exchange(open_loops_, 0);
    OCTAVO_RETURN_IF_ERROR(ParseBlock(end, body));
    open_loops_ = outer_loops;
    return absl::OkStatus();
  }

  absl::Status ParseMacroBody(absl::string_view end, MacroDef* macro) {
    tokens_.open_macros().push_back(macro);
    OCTAVO_RETURN_IF_ERROR(ParseFunctionBody(end, &macro->body));
    tokens_.open_macros().pop_back();
    return absl::OkStatus();
  }

  Result ParseMacro(std::unique_ptr<Stmt> statement) {
    statement->kind = StmtKind::kMacro;
    if (tokens_.Peek().type != TokenType::kName) return tokens_.Unexpected("the macro's name");
    statement->macro = std::make_unique<MacroDef>();
    statement->macro->name = tokens_.Next().text;
    statement->target.name = statement->macro->name;
    statement->target.symbol = tokens_.Intern(statement->macro->name);
    OCTAVO_RETURN_IF_ERROR(ParseSignature(statement->macro.get()));
    OCTAVO_RETURN_IF_ERROR(ParseMacroBody("endmacro", statement->macro.get()));
    return StmtPtr(std::move(statement));
  }

  Result ParseCallBlock(std::unique_ptr<Stmt> statement) {
    statement->kind = StmtKind::kCallBlock;
    statement->macro = std::make_unique<MacroDef>();
    statement->macro->name = "caller";
    if (tokens_.Peek().IsOperator("(")) {
      OCTAVO_RETURN_IF_ERROR(ParseSignature(statement->macro.get()));
    }
    OCTAVO_ASSIGN_OR_RETURN(statement->expr, tokens_.ParseExpression());
    if (statement->expr->op != ExprOp::kCall) {
      return SyntaxError(statement->line, "a call block needs a call");
    }
    OCTAVO_RETURN_IF_ERROR(ParseMacroBody("endcall", statement->macro.get()));
    return StmtPtr(std::move(statement));
  }

  ExpressionParser tokens_;
  int open_loops_ = 0;
};

}  // namespace

absl::StatusOr<Template> Parse(absl::string_view source) {
  OCTAVO_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return StatementParser(std::move(tokens)).Run();
}

}  // namespace octavo::jinja
