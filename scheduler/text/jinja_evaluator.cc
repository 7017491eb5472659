// Expressions.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_interpreter.h"
#include "scheduler/text/jinja_operators.h"
#include "scheduler/text/jinja_print.h"

namespace octavo::jinja {

absl::StatusOr<Value> Interpreter::Eval(const Expr& expr) {
  const DepthGuard depth(this);
  absl::StatusOr<Value> value = depth.Check() && runtime_.budget.Spend(1)
                                    ? EvalOp(expr)
                                    : absl::StatusOr<Value>(runtime_.budget.status());
  if (value.ok() && !runtime_.budget.ok()) value = runtime_.budget.status();
  if (!value.ok() && error_line_ == 0) error_line_ = expr.line;
  return value;
}

absl::StatusOr<Value> Interpreter::EvalOp(const Expr& expr) {
  switch (expr.op) {
    case ExprOp::kConst:
      return expr.constant;
    case ExprOp::kName:
      return Lookup(expr.symbol, expr.name);
    case ExprOp::kTuple:
    case ExprOp::kList: {
      OCTAVO_ASSIGN_OR_RETURN(std::vector<Value> items, EvalAll(expr.args, 0));
      return MakeSequence(runtime_.budget,
                          expr.op == ExprOp::kList ? Sequence::Kind::kList : Sequence::Kind::kTuple,
                          std::move(items));
    }
    case ExprOp::kDict:
      return EvalDict(expr);
    case ExprOp::kCond: {
      OCTAVO_ASSIGN_OR_RETURN(const Value test, Eval(*expr.args[0]));
      if (Truthy(test)) return Eval(*expr.args[1]);
      if (expr.args[2] != nullptr) return Eval(*expr.args[2]);
      return Value::MakeUndefined("the inline if is false and has no else");
    }
    case ExprOp::kOr:
    case ExprOp::kAnd: {
      OCTAVO_ASSIGN_OR_RETURN(Value left, Eval(*expr.args[0]));
      return Truthy(left) == (expr.op == ExprOp::kOr) ? std::move(left) : Eval(*expr.args[1]);
    }
    case ExprOp::kNot: {
      OCTAVO_ASSIGN_OR_RETURN(const Value operand, Eval(*expr.args[0]));
      return Value::Bool(!Truthy(operand));
    }
    case ExprOp::kNeg: {
      OCTAVO_ASSIGN_OR_RETURN(const Value operand, Eval(*expr.args[0]));
      return Negate(operand);
    }
    case ExprOp::kPos: {
      OCTAVO_ASSIGN_OR_RETURN(const Value operand, Eval(*expr.args[0]));
      if (operand.IsBool()) return Value::Int(operand.integral());
      return operand.IsNumber() ? absl::StatusOr<Value>(operand)
                                : Unsuitable(operand, "have a sign");
    }
    case ExprOp::kBinary: {
      OCTAVO_ASSIGN_OR_RETURN(const Value left, Eval(*expr.args[0]));
      OCTAVO_ASSIGN_OR_RETURN(const Value right, Eval(*expr.args[1]));
      return BinaryOperator(runtime_, expr.name, left, right);
    }
    case ExprOp::kCompare:
      return EvalCompare(expr);
    case ExprOp::kConcat:
      return EvalConcat(expr);
    case ExprOp::kAttr: {
      OCTAVO_ASSIGN_OR_RETURN(const Value object, Eval(*expr.args[0]));
      return GetAttribute(runtime_, object, expr.name);
    }
    case ExprOp::kItem: {
      OCTAVO_ASSIGN_OR_RETURN(const Value object, Eval(*expr.args[0]));
      OCTAVO_ASSIGN_OR_RETURN(const Value key, Eval(*expr.args[1]));
      return GetItem(runtime_, object, key);
    }
    case ExprOp::kSlice:
      return EvalSlice(expr);
    case ExprOp::kCall:
      return EvalCall(expr, nullptr);
    case ExprOp::kFilter:
      return EvalFilter(expr);
    case ExprOp::kTest:
      return EvalTest(expr);
  }
  return Value();
}

absl::StatusOr<std::vector<Value>> Interpreter::EvalAll(const std::vector<ExprPtr>& exprs,
                                                        size_t first) {
  std::vector<Value> values;
  values.reserve(exprs.size() - first);
  for (size_t i = first; i < exprs.size(); ++i) {
    OCTAVO_ASSIGN_OR_RETURN(Value value, Eval(*exprs[i]));
    values.push_back(std::move(value));
  }
  return values;
}

absl::StatusOr<Value> Interpreter::EvalDict(const Expr& expr) {
  Dict dict;
  for (size_t i = 0; i < expr.args.size(); i += 2) {
    OCTAVO_ASSIGN_OR_RETURN(Value key, Eval(*expr.args[i]));
    if (!Dict::IsKey(key)) return Unsuitable(key, "be a key");
    OCTAVO_ASSIGN_OR_RETURN(Value value, Eval(*expr.args[i + 1]));
    dict.Set(std::move(key), std::move(value));
  }
  return MakeDict(runtime_.budget, std::move(dict));
}

absl::StatusOr<Value> Interpreter::EvalCompare(const Expr& expr) {
  OCTAVO_ASSIGN_OR_RETURN(Value left, Eval(*expr.args[0]));
  for (size_t i = 0; i < expr.names.size(); ++i) {
    OCTAVO_ASSIGN_OR_RETURN(Value right, Eval(*expr.args[i + 1]));
    OCTAVO_ASSIGN_OR_RETURN(const bool holds,
                            CompareOperator(runtime_, expr.names[i], left, right));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

absl::StatusOr<Value> Interpreter::EvalConcat(const Expr& expr) {
  Text whole;
  for (const ExprPtr& arg : expr.args) {
    OCTAVO_ASSIGN_OR_RETURN(const Value part, Eval(*arg));
    OCTAVO_ASSIGN_OR_RETURN(const Text text, Str(part, runtime_.budget));
    OCTAVO_ASSIGN_OR_RETURN(whole, ConcatText(runtime_, whole, text));
  }
  return Value(std::move(whole));
}

absl::StatusOr<Value> Interpreter::EvalSlice(const Expr& expr) {
  OCTAVO_ASSIGN_OR_RETURN(const Value object, Eval(*expr.args[0]));
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    bounds[i] = Value::MakeNone();
    if (expr.args[i + 1] == nullptr) continue;
    OCTAVO_ASSIGN_OR_RETURN(bounds[i], Eval(*expr.args[i + 1]));
  }
  return GetSlice(runtime_, object, bounds[0], bounds[1], bounds[2]);
}

absl::StatusOr<Args> Interpreter::EvalArgs(const Expr& expr, size_t first) {
  Args args;
  OCTAVO_ASSIGN_OR_RETURN(args.positional, EvalAll(expr.args, first));
  for (const auto& [name, value] : expr.kwargs) {
    OCTAVO_ASSIGN_OR_RETURN(Value evaluated, Eval(*value));
    args.named.emplace_back(name, std::move(evaluated));
  }
  if (expr.star_args != nullptr) {
    OCTAVO_ASSIGN_OR_RETURN(const Value star, Eval(*expr.star_args));
    OCTAVO_ASSIGN_OR_RETURN(const auto items, Iterate(runtime_, star));
    args.positional.insert(args.positional.end(), items->items.begin(), items->items.end());
  }
  if (expr.star_kwargs != nullptr) {
    OCTAVO_ASSIGN_OR_RETURN(const Value star, Eval(*expr.star_kwargs));
    if (!star.IsDict()) return Unsuitable(star, "follow **");
    for (const auto& [key, value] : star.dict().entries()) {
      if (!key.IsString()) return Unsuitable(key, "name an argument");
      if (!runtime_.budget.Allocate(key.text().size() + sizeof(Value))) {
        return runtime_.budget.status();
      }
      args.names_marked = args.names_marked || key.text().AnyMarked();
      args.named.emplace_back(std::string(key.text().view()), value);
    }
  }
  return args;
}

absl::StatusOr<Value> Interpreter::EvalCall(const Expr& expr, const Value* caller) {
  const Expr& callee = *expr.args[0];
  Value object;  // of a method call
  Value function;
  const bool is_attribute = callee.op == ExprOp::kAttr;
  OCTAVO_ASSIGN_OR_RETURN(object, Eval(is_attribute ? *callee.args[0] : callee));
  const bool is_method = is_attribute && HasMethod(object, callee.name);
  if (!is_attribute) {
    function = std::move(object);
  } else if (!is_method) {
    OCTAVO_ASSIGN_OR_RETURN(function, GetAttribute(runtime_, object, callee.name));
  }
  OCTAVO_ASSIGN_OR_RETURN(Args args, EvalArgs(expr, 1));
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  return is_method ? CallMethod(runtime_, object, callee.name, args) : Call(function, args);
}

absl::StatusOr<Value> Interpreter::EvalFilter(const Expr& expr) {
  Value subject;
  if (expr.args[0] != nullptr) {
    OCTAVO_ASSIGN_OR_RETURN(subject, Eval(*expr.args[0]));
  } else {
    subject = *block_subject_;
  }
  OCTAVO_ASSIGN_OR_RETURN(const Args args, EvalArgs(expr, 1));
  return ApplyFilter(runtime_, expr.name, subject, args);
}

absl::StatusOr<Value> Interpreter::EvalFilterBlock(const Expr& expr, const Value& subject) {
  const Value* const outer = std::exchange(block_subject_, &subject);
  absl::StatusOr<Value> value = Eval(expr);
  block_subject_ = outer;
  return value;
}

absl::StatusOr<Value> Interpreter::EvalTest(const Expr& expr) {
  OCTAVO_ASSIGN_OR_RETURN(const Value subject, Eval(*expr.args[0]));
  OCTAVO_ASSIGN_OR_RETURN(const Args args, EvalArgs(expr, 1));
  OCTAVO_ASSIGN_OR_RETURN(const bool holds, ApplyTest(runtime_, expr.name, subject, args));
  return Value::Bool(holds);
}

}  // namespace octavo::jinja
