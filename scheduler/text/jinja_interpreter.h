// Walks a template's tree and renders it. One object per render, used by one thread.
//
// Scopes: for bodies, macros, call blocks, filter blocks, block sets, with and generation blocks
// have one of their own; if has none. Names are looked up from the innermost scope outwards, then
// in the context, then among the functions every template knows.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_INTERPRETER_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_INTERPRETER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/text/jinja_ast.h"
#include "scheduler/text/jinja_runtime.h"

namespace octavo::jinja {

// Names are looked up one by one: how many of them count as one step.
inline constexpr size_t kVariablesPerStep = 16;

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<Symbol, Value>> variables;
  bool captured = false;  // by a macro: lives until the render ends
};

class Interpreter {
 public:
  // The context is a dict. Both must outlive the interpreter.
  Interpreter(const Template& source, const Value& context, Runtime runtime);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // INVALID_ARGUMENT for what the template or the context got wrong, RESOURCE_EXHAUSTED for a
  // limit; both say "template line N: ...".
  absl::StatusOr<Text> Render();

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // Enters a scope under `parent` and leaves it.
  class ScopeGuard {
   public:
    ScopeGuard(Interpreter* interpreter, Scope* parent);
    ~ScopeGuard();
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

   private:
    Interpreter* interpreter_;
    Scope* outer_;
    std::unique_ptr<Scope> scope_;
  };

  // Counts nested evaluations: false past the limit, which it also reports to the budget.
  class DepthGuard {
   public:
    explicit DepthGuard(Interpreter* interpreter) : interpreter_(interpreter) {
      ++interpreter_->depth_;
    }
    ~DepthGuard() { --interpreter_->depth_; }
    DepthGuard(const DepthGuard&) = delete;
    DepthGuard& operator=(const DepthGuard&) = delete;
    bool Check() const;

   private:
    Interpreter* interpreter_;
  };

  // Statements (jinja_interpreter.cc).
  absl::Status ExecBody(const Body& body);
  absl::Status Exec(const Stmt& stmt);
  absl::Status ExecKind(const Stmt& stmt);
  absl::Status ExecIf(const Stmt& stmt);
  absl::Status ExecFor(const Stmt& stmt);
  // Sets *completed when some iteration reached its end.
  absl::Status ExecIterations(const Stmt& stmt, const Value& loop, bool* completed);
  absl::StatusOr<std::shared_ptr<const Sequence>> LoopItems(const Stmt& stmt);
  absl::Status ExecWith(const Stmt& stmt);
  absl::Status ExecCallBlock(const Stmt& stmt);
  absl::Status ExecScoped(const Body& body);
  absl::StatusOr<Value> CaptureBody(const Body& body);
  absl::Status Output(const Value& value);
  absl::Status Assign(const Target& target, Value value);

  // Expressions (jinja_evaluator.cc).
  absl::StatusOr<Value> Eval(const Expr& expr);
  absl::StatusOr<Value> EvalOp(const Expr& expr);
  absl::StatusOr<std::vector<Value>> EvalAll(const std::vector<ExprPtr>& exprs, size_t first);
  absl::StatusOr<Value> EvalDict(const Expr& expr);
  absl::StatusOr<Value> EvalCompare(const Expr& expr);
  absl::StatusOr<Value> EvalConcat(const Expr& expr);
  absl::StatusOr<Value> EvalSlice(const Expr& expr);
  absl::StatusOr<Value> EvalCall(const Expr& expr, const Value* caller);
  absl::StatusOr<Value> EvalFilter(const Expr& expr);
  absl::StatusOr<Value> EvalTest(const Expr& expr);
  absl::StatusOr<Args> EvalArgs(const Expr& expr, size_t first);
  // A filter chain whose innermost subject is a block's output.
  absl::StatusOr<Value> EvalFilterBlock(const Expr& expr, const Value& subject);
  Value Lookup(Symbol symbol, absl::string_view name) const;

  // Calls (jinja_calls.cc).
  absl::StatusOr<Value> Call(const Value& callee, const Args& args);
  absl::StatusOr<Value> CallMacro(const Callable& macro, const Args& args);
  absl::StatusOr<Value> CallGlobal(absl::string_view name, const Args& args);
  absl::StatusOr<Value> CallLoopMethod(LoopState& loop, absl::string_view name, const Args& args);
  absl::StatusOr<Value> MakeNamespace(const Args& args);
  absl::StatusOr<Value> MakeRange(const Args& args);
  Value MakeMacro(const MacroDef& macro);

  void SetVariable(Scope* scope, Symbol symbol, Value value);

  const Template& template_;
  const Value& context_;
  Runtime runtime_;
  int depth_ = 0;
  int error_line_ = 0;  // of the innermost node that failed
  Flow flow_ = Flow::kNext;
  const Value* block_subject_ = nullptr;  // what EvalFilterBlock filters
  TextBuilder* out_ = nullptr;
  Scope* scope_ = nullptr;
  Scope root_;
  // What values point to by plain pointer.
  std::vector<std::unique_ptr<Scope>> captured_scopes_;
  std::vector<std::unique_ptr<Namespace>> namespaces_;
};

// Whether every template knows a function of that name: range, dict, namespace, raise_exception,
// strftime_now.
bool IsGlobalFunction(absl::string_view name);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_INTERPRETER_H_
