// Operands: literals, names, brackets, and what follows them (subscripts, calls, filters, tests).
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_expression_parser.h"
#include "scheduler/text/jinja_parser.h"

namespace octavo::jinja {
namespace {

bool IsConstantName(absl::string_view name) {
  return name == "true" || name == "True" || name == "false" || name == "False" || name == "none" ||
         name == "None";
}

}  // namespace

ExpressionParser::Result ExpressionParser::ParsePrimary() {
  std::unique_ptr<Expr> node = Make(ExprOp::kConst, Peek().line);
  switch (Peek().type) {
    case TokenType::kName: {
      const std::string name = Next().text;
      if (IsConstantName(name)) {
        const char first = name[0] | 0x20;
        node->constant = first == 'n' ? Value::MakeNone() : Value::Bool(first == 't');
        return Finish(std::move(node));
      }
      node->op = ExprOp::kName;
      node->symbol = Intern(name);
      node->name = name;
      for (MacroDef* macro : open_macros_) {
        macro->uses_caller |= node->symbol == kCallerSymbol;
        macro->uses_varargs |= node->symbol == kVarargsSymbol;
        macro->uses_kwargs |= node->symbol == kKwargsSymbol;
      }
      return Finish(std::move(node));
    }
    case TokenType::kString: {
      std::string text;
      while (Peek().type == TokenType::kString) text += Next().text;
      node->constant = Value(Text::Literal(text));
      return Finish(std::move(node));
    }
    case TokenType::kInteger:
      node->constant = Value::Int(Next().integer);
      return Finish(std::move(node));
    case TokenType::kFloat:
      node->constant = Value::Float(Next().floating);
      return Finish(std::move(node));
    default:
      break;
  }
  if (Peek().IsOperator("[")) return ParseList();
  if (Peek().IsOperator("{")) return ParseDict();
  if (!SkipOperator("(")) return Unexpected("an expression");
  const Nesting nesting(this);
  OCTAVO_RETURN_IF_ERROR(nesting.Check());
  OCTAVO_ASSIGN_OR_RETURN(ExprPtr inner, ParseTuple(true, true));
  OCTAVO_RETURN_IF_ERROR(ExpectOperator(")"));
  return inner;
}

ExpressionParser::Result ExpressionParser::ParseList() {
  std::unique_ptr<Expr> node = Make(ExprOp::kList, Next().line);
  while (!Peek().IsOperator("]")) {
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr item, ParseExpression());
    node->args.push_back(std::move(item));
    if (!SkipOperator(",")) break;
  }
  OCTAVO_RETURN_IF_ERROR(ExpectOperator("]"));
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseDict() {
  std::unique_ptr<Expr> node = Make(ExprOp::kDict, Next().line);
  while (!Peek().IsOperator("}")) {
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr key, ParseExpression());
    OCTAVO_RETURN_IF_ERROR(ExpectOperator(":"));
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
    node->args.push_back(std::move(key));
    node->args.push_back(std::move(value));
    if (!SkipOperator(",")) break;
  }
  OCTAVO_RETURN_IF_ERROR(ExpectOperator("}"));
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParsePostfix(ExprPtr node) {
  while (true) {
    if (Peek().IsOperator(".") || Peek().IsOperator("[")) {
      OCTAVO_ASSIGN_OR_RETURN(node, ParseSubscript(std::move(node)));
    } else if (Peek().IsOperator("(")) {
      OCTAVO_ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

ExpressionParser::Result ExpressionParser::ParseFilters(ExprPtr node) {
  while (true) {
    if (SkipOperator("|")) {
      OCTAVO_ASSIGN_OR_RETURN(node, ParseFilter(std::move(node)));
    } else if (SkipName("is")) {
      OCTAVO_ASSIGN_OR_RETURN(node, ParseTest(std::move(node)));
    } else if (Peek().IsOperator("(")) {
      OCTAVO_ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

ExpressionParser::Result ExpressionParser::ParseSubscript(ExprPtr object) {
  const int line = Peek().line;
  if (SkipOperator(".")) {
    if (Peek().type == TokenType::kName) {
      std::unique_ptr<Expr> node = Make(ExprOp::kAttr, line);
      node->name = Next().text;
      node->args.push_back(std::move(object));
      return Finish(std::move(node));
    }
    if (Peek().type != TokenType::kInteger) return Unexpected("a name or number");
    std::unique_ptr<Expr> index = Make(ExprOp::kConst, line);
    index->constant = Value::Int(Next().integer);
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr key, Finish(std::move(index)));
    return MakeBinary(ExprOp::kItem, "", std::move(object), std::move(key), line);
  }
  OCTAVO_RETURN_IF_ERROR(ExpectOperator("["));
  if (Peek().IsOperator(":")) return ParseSlice(std::move(object), nullptr, line);
  OCTAVO_ASSIGN_OR_RETURN(ExprPtr key, ParseExpression());
  if (Peek().IsOperator(":")) return ParseSlice(std::move(object), std::move(key), line);
  if (SkipOperator(",")) {
    std::unique_ptr<Expr> tuple = Make(ExprOp::kTuple, line);
    tuple->args.push_back(std::move(key));
    while (!Peek().IsOperator("]")) {
      OCTAVO_ASSIGN_OR_RETURN(ExprPtr item, ParseExpression());
      tuple->args.push_back(std::move(item));
      if (!SkipOperator(",")) break;
    }
    OCTAVO_ASSIGN_OR_RETURN(key, Finish(std::move(tuple)));
  }
  OCTAVO_RETURN_IF_ERROR(ExpectOperator("]"));
  return MakeBinary(ExprOp::kItem, "", std::move(object), std::move(key), line);
}

ExpressionParser::Result ExpressionParser::ParseSlice(ExprPtr object, ExprPtr start, int line) {
  std::unique_ptr<Expr> node = Make(ExprOp::kSlice, line);
  node->args.push_back(std::move(object));
  node->args.push_back(std::move(start));
  while (node->args.size() < 4 && SkipOperator(":")) {
    ExprPtr bound;
    if (!Peek().IsOperator(":") && !Peek().IsOperator("]")) {
      OCTAVO_ASSIGN_OR_RETURN(bound, ParseExpression());
    }
    node->args.push_back(std::move(bound));
  }
  if (node->args.size() < 4) node->args.push_back(nullptr);
  OCTAVO_RETURN_IF_ERROR(ExpectOperator("]"));
  return Finish(std::move(node));
}

absl::Status ExpressionParser::ParseArguments(Expr* call) {
  const absl::Status misplaced =
      SyntaxError(Peek().line, "arguments go: positional, *args, named, **kwargs");
  OCTAVO_RETURN_IF_ERROR(ExpectOperator("("));
  while (!Peek().IsOperator(")")) {
    if (SkipOperator("*")) {
      if (call->star_args != nullptr || call->star_kwargs != nullptr) return misplaced;
      OCTAVO_ASSIGN_OR_RETURN(call->star_args, ParseExpression());
    } else if (SkipOperator("**")) {
      if (call->star_kwargs != nullptr) return misplaced;
      OCTAVO_ASSIGN_OR_RETURN(call->star_kwargs, ParseExpression());
    } else if (Peek().type == TokenType::kName && Peek(1).IsOperator("=")) {
      if (call->star_kwargs != nullptr) return misplaced;
      std::string name = Next().text;
      for (const auto& [other, value] : call->kwargs) {
        if (other == name)
          return SyntaxError(Peek().line, absl::StrCat("repeated argument ", name));
      }
      if (call->kwargs.size() == kMaxParameters) {
        return SyntaxError(Peek().line, absl::StrCat("more than the limit of ", kMaxParameters,
                                                     " named arguments"));
      }
      Next();
      OCTAVO_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
      call->kwargs.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call->kwargs.empty() || call->star_args != nullptr || call->star_kwargs != nullptr) {
        return misplaced;
      }
      OCTAVO_ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
      call->args.push_back(std::move(value));
    }
    if (!SkipOperator(",")) break;
  }
  return ExpectOperator(")");
}

ExpressionParser::Result ExpressionParser::ParseCall(ExprPtr callee) {
  std::unique_ptr<Expr> node = Make(ExprOp::kCall, Peek().line);
  node->args.push_back(std::move(callee));
  OCTAVO_RETURN_IF_ERROR(ParseArguments(node.get()));
  return Finish(std::move(node));
}

absl::StatusOr<std::string> ExpressionParser::ParseDottedName() {
  std::string name;
  do {
    if (Peek().type != TokenType::kName) return Unexpected("a name");
    absl::StrAppend(&name, name.empty() ? "" : ".", Next().text);
  } while (SkipOperator("."));
  return name;
}

ExpressionParser::Result ExpressionParser::ParseFilter(ExprPtr subject) {
  std::unique_ptr<Expr> node = Make(ExprOp::kFilter, Peek().line);
  node->args.push_back(std::move(subject));
  OCTAVO_ASSIGN_OR_RETURN(node->name, ParseDottedName());
  if (Peek().IsOperator("(")) OCTAVO_RETURN_IF_ERROR(ParseArguments(node.get()));
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseFilterChain(bool starts_inline) {
  ExprPtr node;
  while (starts_inline || SkipOperator("|")) {
    starts_inline = false;
    OCTAVO_ASSIGN_OR_RETURN(node, ParseFilter(std::move(node)));
  }
  return node;
}

ExpressionParser::Result ExpressionParser::ParseTest(ExprPtr subject) {
  const int line = Peek().line;
  const bool negated = SkipName("not");
  std::unique_ptr<Expr> test = Make(ExprOp::kTest, line);
  test->args.push_back(std::move(subject));
  OCTAVO_ASSIGN_OR_RETURN(test->name, ParseDottedName());
  const Token& next = Peek();
  if (next.IsOperator("(")) {
    OCTAVO_RETURN_IF_ERROR(ParseArguments(test.get()));
  } else if (next.type == TokenType::kString || next.type == TokenType::kInteger ||
             next.type == TokenType::kFloat || next.IsOperator("[") || next.IsOperator("{") ||
             (next.type == TokenType::kName && !next.IsName("else") && !next.IsName("or") &&
              !next.IsName("and"))) {
    if (next.IsName("is")) return SyntaxError(line, "tests cannot be chained with is");
    OCTAVO_ASSIGN_OR_RETURN(ExprPtr argument, ParsePrimary());
    OCTAVO_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    test->args.push_back(std::move(argument));
  }
  OCTAVO_ASSIGN_OR_RETURN(ExprPtr node, Finish(std::move(test)));
  if (!negated) return node;
  std::unique_ptr<Expr> negation = Make(ExprOp::kNot, line);
  negation->args.push_back(std::move(node));
  return Finish(std::move(negation));
}

absl::StatusOr<Target> ExpressionParser::ParseTargetItem(bool with_namespace) {
  if (SkipOperator("(")) {
    const Nesting nesting(this);
    OCTAVO_RETURN_IF_ERROR(nesting.Check());
    OCTAVO_ASSIGN_OR_RETURN(Target inner, ParseTarget(with_namespace));
    OCTAVO_RETURN_IF_ERROR(ExpectOperator(")"));
    return inner;
  }
  if (Peek().type != TokenType::kName || IsConstantName(Peek().text)) {
    return Unexpected("a name to assign to");
  }
  Target target;
  target.name = Next().text;
  target.symbol = Intern(target.name);
  if (with_namespace && SkipOperator(".")) {
    if (Peek().type != TokenType::kName) return Unexpected("a name");
    target.attribute = Next().text;
  }
  return target;
}

absl::StatusOr<Target> ExpressionParser::ParseTarget(bool with_namespace) {
  OCTAVO_ASSIGN_OR_RETURN(Target first, ParseTargetItem(with_namespace));
  if (!Peek().IsOperator(",")) return first;
  Target tuple;
  tuple.is_tuple = true;
  tuple.items.push_back(std::move(first));
  while (SkipOperator(",")) {
    if (Peek().IsOperator(")")) break;
    OCTAVO_ASSIGN_OR_RETURN(Target item, ParseTargetItem(with_namespace));
    tuple.items.push_back(std::move(item));
  }
  return tuple;
}

}  // namespace octavo::jinja
