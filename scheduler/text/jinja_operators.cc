#include "scheduler/text/jinja_operators.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_format.h"
#include "scheduler/text/jinja_print.h"
#include "scheduler/text/jinja_unicode.h"

namespace octavo::jinja {
namespace {

absl::Status Overflow(absl::string_view op) {
  return absl::InvalidArgumentError(
      absl::StrCat("the integer result of ", op, " does not fit in 64 bits"));
}

absl::StatusOr<Value> IntegerOperator(absl::string_view op, int64_t left, int64_t right) {
  int64_t result = 0;
  if (op == "+") {
    if (__builtin_add_overflow(left, right, &result)) return Overflow(op);
  } else if (op == "-") {
    if (__builtin_sub_overflow(left, right, &result)) return Overflow(op);
  } else if (op == "*") {
    if (__builtin_mul_overflow(left, right, &result)) return Overflow(op);
  } else if (op == "**") {
    if (right < 0) {
      if (left == 0) return absl::InvalidArgumentError("0 to a negative power");
      return Value::Float(std::pow(static_cast<double>(left), static_cast<double>(right)));
    }
    result = 1;
    for (int64_t base = left; right > 0; right >>= 1) {
      if ((right & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow(op);
      if (right > 1 && __builtin_mul_overflow(base, base, &base)) return Overflow(op);
    }
  } else {
    if (right == 0) return absl::InvalidArgumentError("division by zero");
    if (op == "/") return Value::Float(static_cast<double>(left) / static_cast<double>(right));
    if (right == -1) {
      if (op == "%") return Value::Int(0);
      if (__builtin_sub_overflow(int64_t{0}, left, &result)) return Overflow(op);
      return Value::Int(result);
    }
    // Python rounds the quotient down; the remainder has the divisor's sign.
    const int64_t remainder = left % right;
    const bool adjust = remainder != 0 && (remainder < 0) != (right < 0);
    result = op == "//" ? left / right - (adjust ? 1 : 0) : remainder + (adjust ? right : 0);
  }
  return Value::Int(result);
}

absl::StatusOr<Value> FloatOperator(absl::string_view op, double left, double right) {
  if (op == "+") return Value::Float(left + right);
  if (op == "-") return Value::Float(left - right);
  if (op == "*") return Value::Float(left * right);
  if (op == "**") {
    if (left == 0 && right < 0) return absl::InvalidArgumentError("0 to a negative power");
    const double result = std::pow(left, right);
    if (std::isfinite(left) && std::isfinite(right) && !std::isfinite(result)) {
      return absl::InvalidArgumentError("the result of ** is no finite real number");
    }
    return Value::Float(result);
  }
  if (right == 0) return absl::InvalidArgumentError("division by zero");
  if (op == "/") return Value::Float(left / right);
  double remainder = std::fmod(left, right);
  if (remainder != 0 && (remainder < 0) != (right < 0)) remainder += right;
  if (op == "%") return Value::Float(remainder == 0 ? std::copysign(0.0, right) : remainder);
  const double quotient = (left - remainder) / right;
  return Value::Float(quotient == 0 ? std::copysign(0.0, left / right) : std::round(quotient));
}

absl::StatusOr<Value> Repeat(Runtime& runtime, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const bool is_text = value.IsString();
  const size_t size = is_text ? value.text().size() : value.sequence()->items.size();
  const size_t unit = is_text ? 1 : sizeof(Value);
  size_t bytes = 0;
  if (__builtin_mul_overflow(size * unit, static_cast<size_t>(times), &bytes)) bytes = SIZE_MAX;
  if (!runtime.budget.Allocate(bytes)) return runtime.budget.status();
  if (size == 0) times = 0;  // no work in proportion to the count
  if (is_text) {
    TextBuilder builder;
    for (int64_t i = 0; i < times; ++i) builder.Append(value.text());
    return Value(builder.Finish());
  }
  const Sequence& sequence = *value.sequence();
  std::vector<Value> items;
  items.reserve(size * static_cast<size_t>(times));
  for (int64_t i = 0; i < times; ++i) {
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  }
  return MakeSequence(runtime.budget, sequence.kind, std::move(items));
}

bool IsRepeatable(const Value& value) {
  return value.IsString() || (value.sequence() != nullptr && value.sequence()->IsListOrTuple());
}

absl::StatusOr<Value> AddTexts(Runtime& runtime, const Text& left, const Text& right) {
  // Markup escapes whatever plain text it is joined with.
  const bool markup = left.is_markup() || right.is_markup();
  const auto prepare = [&](const Text& text) {
    return markup && !text.is_markup() ? EscapeHtml(runtime, text) : text;
  };
  OCTAVO_ASSIGN_OR_RETURN(const Text sum, ConcatText(runtime, prepare(left), prepare(right)));
  return Value(markup ? sum.AsMarkup() : sum);
}

absl::Status NoOperator(absl::string_view op, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right}) {
    if (value->IsUndefined()) return absl::InvalidArgumentError(value->UndefinedMessage());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("operator ", op, " does not take ", TypeName(left), " and ", TypeName(right)));
}

}  // namespace

absl::StatusOr<Text> ConcatText(Runtime& runtime, const Text& left, const Text& right) {
  const size_t bytes = left.ConcatsInPlace() ? right.size() : left.size() + right.size();
  if (!runtime.budget.Allocate(bytes)) return runtime.budget.status();
  return left.Concat(right);
}

absl::StatusOr<Value> BinaryOperator(Runtime& runtime, absl::string_view op, const Value& left,
                                     const Value& right) {
  if (left.IsString() && op == "%") {
    OCTAVO_ASSIGN_OR_RETURN(Text text, FormatPercent(runtime, left.text(), right));
    return Value(std::move(text));
  }
  if (left.IsIntegral() && right.IsIntegral()) {
    return IntegerOperator(op, left.integral(), right.integral());
  }
  if (left.IsNumber() && right.IsNumber()) return FloatOperator(op, left.number(), right.number());
  if (op == "+" && left.IsString() && right.IsString()) {
    return AddTexts(runtime, left.text(), right.text());
  }
  if (op == "*" && IsRepeatable(left) && right.IsIntegral()) {
    return Repeat(runtime, left, right.integral());
  }
  if (op == "*" && left.IsIntegral() && IsRepeatable(right)) {
    return Repeat(runtime, right, left.integral());
  }
  const Sequence* first = left.sequence();
  const Sequence* second = right.sequence();
  if (op == "+" && first != nullptr && second != nullptr && first->IsListOrTuple() &&
      first->kind == second->kind) {
    const size_t size = first->items.size() + second->items.size();
    if (!runtime.budget.Spend(static_cast<int64_t>(size))) return runtime.budget.status();
    std::vector<Value> items = first->items;
    items.insert(items.end(), second->items.begin(), second->items.end());
    return MakeSequence(runtime.budget, first->kind, std::move(items));
  }
  return NoOperator(op, left, right);
}

absl::StatusOr<Value> Negate(const Value& value) {
  if (value.IsFloat()) return Value::Float(-value.floating());
  if (!value.IsIntegral()) return Unsuitable(value, "be negated");
  return IntegerOperator("-", 0, value.integral());
}

absl::StatusOr<bool> Contains(Runtime& runtime, const Value& haystack, const Value& needle) {
  if (haystack.IsString()) {
    if (!needle.IsString()) return Unsuitable(needle, "be looked for in a str");
    runtime.budget.SpendBytes(haystack.text().size());
    return FindText(haystack.text().view(), needle.text().view()) != absl::string_view::npos;
  }
  if (haystack.IsDict()) {
    if (!Dict::IsHashable(needle)) return Unsuitable(needle, "be a key");
    return haystack.dict().Find(needle) != nullptr;
  }
  OCTAVO_ASSIGN_OR_RETURN(const auto items, Iterate(runtime, haystack));
  return std::any_of(items->items.begin(), items->items.end(),
                     [&](const Value& item) { return Equal(item, needle, runtime.budget); });
}

absl::StatusOr<bool> CompareOperator(Runtime& runtime, absl::string_view op, const Value& left,
                                     const Value& right) {
  if (op == "==") return Equal(left, right, runtime.budget);
  if (op == "!=") return !Equal(left, right, runtime.budget);
  if (op == "<") return Less(left, right, runtime.budget);
  if (op == ">") return Less(right, left, runtime.budget);
  if (op == "in") return Contains(runtime, right, left);
  if (op == "notin") {
    OCTAVO_ASSIGN_OR_RETURN(const bool found, Contains(runtime, right, left));
    return !found;
  }
  // a <= b is not "not b < a" once a NaN is about.
  OCTAVO_ASSIGN_OR_RETURN(const bool less, op == "<=" ? Less(left, right, runtime.budget)
                                                      : Less(right, left, runtime.budget));
  return less || Equal(left, right, runtime.budget);
}

absl::StatusOr<int64_t> Length(Runtime& runtime, const Value& value) {
  if (value.IsUndefined()) return 0;
  if (value.IsString()) {
    runtime.budget.SpendBytes(value.text().size());
    return static_cast<int64_t>(CountCodePoints(value.text().view()));
  }
  if (value.IsDict()) return static_cast<int64_t>(value.dict().entries().size());
  if (const LoopState* loop = value.loop()) return static_cast<int64_t>(loop->items->items.size());
  const Sequence* sequence = value.sequence();
  if (sequence == nullptr || sequence->kind == Sequence::Kind::kGenerator) {
    return Unsuitable(value, "have a length");
  }
  return static_cast<int64_t>(sequence->items.size());
}

Text EscapeHtml(Runtime& runtime, const Text& text) {
  constexpr size_t kLongestEntity = 5;
  if (!runtime.budget.Allocate(text.size() * kLongestEntity)) return Text();
  const std::string escaped = absl::StrReplaceAll(
      text.view(), {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&#34;"}, {"'", "&#39;"}});
  return MakeText(runtime.budget, escaped, text.AnyMarked()).text().AsMarkup();
}

}  // namespace octavo::jinja
