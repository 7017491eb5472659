#include "scheduler/text/jinja_interpreter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_operators.h"
#include "scheduler/text/jinja_print.h"

namespace octavo::jinja {

Interpreter::ScopeGuard::ScopeGuard(Interpreter* interpreter, Scope* parent)
    : interpreter_(interpreter), outer_(interpreter->scope_), scope_(std::make_unique<Scope>()) {
  scope_->parent = parent;
  interpreter_->scope_ = scope_.get();
}

Interpreter::ScopeGuard::~ScopeGuard() {
  interpreter_->scope_ = outer_;
  if (scope_->captured) interpreter_->captured_scopes_.push_back(std::move(scope_));
}

bool Interpreter::DepthGuard::Check() const {
  Budget& budget = interpreter_->runtime_.budget;
  if (interpreter_->depth_ > budget.limits().max_depth) {
    budget.Exhaust("nested evaluations", budget.limits().max_depth);
  }
  return budget.ok();
}

Interpreter::Interpreter(const Template& source, const Value& context, Runtime runtime)
    : template_(source), context_(context), runtime_(runtime), scope_(&root_) {}

absl::StatusOr<Text> Interpreter::Render() {
  TextBuilder output;
  out_ = &output;
  absl::Status status = ExecBody(template_.body);
  if (status.ok()) status = runtime_.budget.status();
  if (!status.ok()) {
    return absl::Status(status.code(),
                        absl::StrCat("template line ", error_line_, ": ", status.message()));
  }
  return output.Finish();
}

absl::Status Interpreter::ExecBody(const Body& body) {
  const DepthGuard depth(this);
  if (!depth.Check()) return runtime_.budget.status();
  for (const auto& stmt : body) {
    OCTAVO_RETURN_IF_ERROR(Exec(*stmt));
    if (flow_ != Flow::kNext) break;
  }
  return absl::OkStatus();
}

absl::Status Interpreter::Exec(const Stmt& stmt) {
  absl::Status status = runtime_.budget.Spend(1) ? ExecKind(stmt) : runtime_.budget.status();
  if (status.ok()) status = runtime_.budget.status();
  if (!status.ok() && error_line_ == 0) error_line_ = stmt.line;
  return status;
}

absl::Status Interpreter::ExecKind(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::kText:
      return Output(Value(stmt.text));
    case StmtKind::kOutput: {
      OCTAVO_ASSIGN_OR_RETURN(const Value value, Eval(*stmt.expr));
      return Output(value);
    }
    case StmtKind::kIf:
      return ExecIf(stmt);
    case StmtKind::kFor:
      return ExecFor(stmt);
    case StmtKind::kSet: {
      OCTAVO_ASSIGN_OR_RETURN(Value value, Eval(*stmt.expr));
      return Assign(stmt.target, std::move(value));
    }
    case StmtKind::kSetBlock: {
      OCTAVO_ASSIGN_OR_RETURN(Value value, CaptureBody(stmt.body));
      if (stmt.expr != nullptr) {
        OCTAVO_ASSIGN_OR_RETURN(value, EvalFilterBlock(*stmt.expr, value));
      }
      return Assign(stmt.target, std::move(value));
    }
    case StmtKind::kMacro:
      return Assign(stmt.target, MakeMacro(*stmt.macro));
    case StmtKind::kCallBlock:
      return ExecCallBlock(stmt);
    case StmtKind::kFilterBlock: {
      OCTAVO_ASSIGN_OR_RETURN(const Value body, CaptureBody(stmt.body));
      OCTAVO_ASSIGN_OR_RETURN(const Value filtered, EvalFilterBlock(*stmt.expr, body));
      return Output(filtered);
    }
    case StmtKind::kWith:
      return ExecWith(stmt);
    case StmtKind::kScope:
      return ExecScoped(stmt.body);
    case StmtKind::kBreak:
      flow_ = Flow::kBreak;
      return absl::OkStatus();
    case StmtKind::kContinue:
      flow_ = Flow::kContinue;
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status Interpreter::ExecIf(const Stmt& stmt) {
  for (const Stmt::Branch& branch : stmt.branches) {
    if (branch.test != nullptr) {
      OCTAVO_ASSIGN_OR_RETURN(const Value test, Eval(*branch.test));
      if (!Truthy(test)) continue;
    }
    return ExecBody(branch.body);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Sequence>> Interpreter::LoopItems(const Stmt& stmt) {
  OCTAVO_ASSIGN_OR_RETURN(const Value value, Eval(*stmt.expr));
  OCTAVO_ASSIGN_OR_RETURN(auto items, Iterate(runtime_, value));
  if (stmt.test == nullptr) return items;
  // Jinja filters lazily, between iterations; only a template whose filter reads a namespace that
  // its body changes could tell.
  std::vector<Value> kept;
  for (const Value& item : items->items) {
    const ScopeGuard scope(this, scope_);
    OCTAVO_RETURN_IF_ERROR(Assign(stmt.target, item));
    OCTAVO_ASSIGN_OR_RETURN(const Value test, Eval(*stmt.test));
    if (Truthy(test)) kept.push_back(item);
  }
  return MakeSequence(runtime_.budget, Sequence::Kind::kList, std::move(kept)).shared_sequence();
}

absl::Status Interpreter::ExecIterations(const Stmt& stmt, const Value& loop, bool* completed) {
  LoopState& state = *loop.loop();
  for (; state.index < state.items->items.size(); ++state.index) {
    const ScopeGuard scope(this, scope_);
    OCTAVO_RETURN_IF_ERROR(Assign(stmt.target, state.items->items[state.index]));
    SetVariable(scope_, kLoopSymbol, loop);
    OCTAVO_RETURN_IF_ERROR(ExecBody(stmt.body));
    const Flow flow = std::exchange(flow_, Flow::kNext);
    if (flow == Flow::kNext) *completed = true;
    if (flow == Flow::kBreak) break;
  }
  return absl::OkStatus();
}

absl::Status Interpreter::ExecFor(const Stmt& stmt) {
  OCTAVO_ASSIGN_OR_RETURN(auto items, LoopItems(stmt));
  const Value loop = MakeLoop(runtime_.budget, std::move(items));
  bool completed = false;
  const absl::Status status = ExecIterations(stmt, loop, &completed);
  loop.loop()->ended = true;
  loop.loop()->last_changed.clear();
  OCTAVO_RETURN_IF_ERROR(status);
  // As compiled Jinja does it: else runs when no iteration reached its end.
  return completed || stmt.orelse.empty() ? absl::OkStatus() : ExecScoped(stmt.orelse);
}

absl::Status Interpreter::ExecWith(const Stmt& stmt) {
  std::vector<Value> values;
  for (const Stmt::Assignment& assignment : stmt.assignments) {
    OCTAVO_ASSIGN_OR_RETURN(Value value, Eval(*assignment.value));
    values.push_back(std::move(value));
  }
  const ScopeGuard scope(this, scope_);
  for (size_t i = 0; i < values.size(); ++i) {
    OCTAVO_RETURN_IF_ERROR(Assign(stmt.assignments[i].target, std::move(values[i])));
  }
  return ExecBody(stmt.body);
}

absl::Status Interpreter::ExecCallBlock(const Stmt& stmt) {
  const Value caller = MakeMacro(*stmt.macro);
  OCTAVO_ASSIGN_OR_RETURN(const Value result, EvalCall(*stmt.expr, &caller));
  return Output(result);
}

absl::Status Interpreter::ExecScoped(const Body& body) {
  const ScopeGuard scope(this, scope_);
  return ExecBody(body);
}

absl::StatusOr<Value> Interpreter::CaptureBody(const Body& body) {
  TextBuilder captured;
  TextBuilder* const outer = std::exchange(out_, &captured);
  const absl::Status status = ExecScoped(body);
  out_ = outer;
  OCTAVO_RETURN_IF_ERROR(status);
  return Value(captured.Finish());
}

absl::Status Interpreter::Output(const Value& value) {
  OCTAVO_ASSIGN_OR_RETURN(const Text text, Str(value, runtime_.budget));
  if (!runtime_.budget.Allocate(text.size())) return runtime_.budget.status();
  const int64_t limit = runtime_.budget.limits().max_output_bytes;
  if (static_cast<int64_t>(out_->size() + text.size()) > limit) {
    runtime_.budget.Exhaust("bytes of output", limit);
    return runtime_.budget.status();
  }
  out_->Append(text);
  return absl::OkStatus();
}

void Interpreter::SetVariable(Scope* scope, Symbol symbol, Value value) {
  runtime_.budget.Spend(static_cast<int64_t>(scope->variables.size() / kVariablesPerStep));
  for (auto& [known, old] : scope->variables) {
    if (known != symbol) continue;
    old = std::move(value);
    return;
  }
  scope->variables.emplace_back(symbol, std::move(value));
}

absl::Status Interpreter::Assign(const Target& target, Value value) {
  if (target.is_tuple) {
    OCTAVO_ASSIGN_OR_RETURN(const auto items, Iterate(runtime_, value));
    if (items->items.size() != target.items.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cannot unpack ", items->items.size(), " values into ", target.items.size(), " names"));
    }
    for (size_t i = 0; i < target.items.size(); ++i) {
      OCTAVO_RETURN_IF_ERROR(Assign(target.items[i], items->items[i]));
    }
    return absl::OkStatus();
  }
  if (target.attribute.empty()) {
    SetVariable(scope_, target.symbol, std::move(value));
    return absl::OkStatus();
  }
  Namespace* ns = Lookup(target.symbol, target.name).ns();
  if (ns == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", target.name, "' is no namespace, its attributes cannot be set"));
  }
  if (target.attribute[0] == '_') {
    return absl::InvalidArgumentError("attributes of a namespace cannot start with _");
  }
  ns->attributes[target.attribute] = std::move(value);
  return absl::OkStatus();
}

}  // namespace octavo::jinja
