// The expression half of the parser: a recursive descent over the tokens of one tag.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_EXPRESSION_PARSER_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_EXPRESSION_PARSER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/text/jinja_ast.h"
#include "scheduler/text/jinja_lexer.h"

namespace octavo::jinja {

class ExpressionParser {
 public:
  using Result = absl::StatusOr<ExprPtr>;

  explicit ExpressionParser(std::vector<Token> tokens);

  // One expression, or a tuple when commas follow; empty only as "()".
  Result ParseTuple(bool with_condition, bool in_parentheses = false);
  Result ParseExpression();
  // name | f(x) | g: filters after a block's body, applied to args[0] = null.
  Result ParseFilterChain(bool starts_inline);
  // What an assignment assigns to, up to the name or operator that follows.
  absl::StatusOr<Target> ParseTarget(bool with_namespace);

  const Token& Peek(size_t ahead = 0) const;
  Token Next();
  bool SkipName(absl::string_view name);
  bool SkipOperator(absl::string_view op);
  absl::Status Expect(TokenType type, absl::string_view what);
  absl::Status ExpectOperator(absl::string_view op);
  absl::Status Unexpected(absl::string_view wanted) const;

  Symbol Intern(absl::string_view name);
  std::vector<std::string> TakeSymbols() { return std::move(symbols_); }

  // Macros whose bodies are being parsed, to note what they mention.
  std::vector<MacroDef*>& open_macros() { return open_macros_; }

  // Counts nesting of brackets and blocks; false past kMaxParseDepth.
  class Nesting {
   public:
    explicit Nesting(ExpressionParser* parser) : parser_(parser) { ++parser_->depth_; }
    ~Nesting() { --parser_->depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    absl::Status Check() const;

   private:
    ExpressionParser* parser_;
  };

 private:
  Result ParseCondition();
  Result ParseOr();
  Result ParseAnd();
  Result ParseNot();
  Result ParseCompare();
  Result ParseSum();
  Result ParseConcat();
  Result ParseProduct();
  Result ParsePower();
  Result ParseUnary(bool with_filters);
  Result ParsePrimary();
  Result ParseList();
  Result ParseDict();
  Result ParsePostfix(ExprPtr node);
  Result ParseFilters(ExprPtr node);
  Result ParseFilter(ExprPtr node);
  Result ParseTest(ExprPtr node);
  Result ParseSubscript(ExprPtr node);
  Result ParseSlice(ExprPtr object, ExprPtr start, int line);
  Result ParseCall(ExprPtr callee);
  absl::Status ParseArguments(Expr* call);
  absl::StatusOr<std::string> ParseDottedName();
  absl::StatusOr<Target> ParseTargetItem(bool with_namespace);
  bool AtTupleEnd() const;

  std::unique_ptr<Expr> Make(ExprOp op, int line) const;
  // Closes a node: computes its height and refuses one that is too high.
  Result Finish(std::unique_ptr<Expr> node) const;
  Result MakeBinary(ExprOp op, std::string name, ExprPtr left, ExprPtr right, int line) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::string> symbols_;
  absl::flat_hash_map<std::string, Symbol> symbol_of_;
  std::vector<MacroDef*> open_macros_;
};

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_EXPRESSION_PARSER_H_
