// Filters over numbers, and those that choose a value.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_filters.h"
#include "scheduler/text/jinja_literals.h"
#include "scheduler/text/jinja_operators.h"
#include "scheduler/text/jinja_print.h"
#include "scheduler/text/jinja_unicode.h"

namespace octavo::jinja {
namespace {

constexpr double kInt64Bound = 9223372036854775808.0;  // 2^63

absl::StatusOr<Value> Default(Runtime&, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("default", args, {"default_value", "boolean"}));
  if (!value.IsUndefined() && (!bound.Boolean(1, false) || Truthy(value))) return value;
  return bound[0] == nullptr ? Value(Text()) : *bound[0];
}

absl::StatusOr<Value> Truncated(double value) {
  if (std::isnan(value)) return Value();  // the caller's default
  if (std::fabs(value) < kInt64Bound) return Value::Int(static_cast<int64_t>(value));
  if (std::isinf(value)) return Value();
  return absl::InvalidArgumentError(
      absl::StrCat("int: ", FormatFloat(value), " does not fit in 64 bits"));
}

absl::StatusOr<Value> ToInt(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("int", args, {"default", "base"}));
  OCTAVO_ASSIGN_OR_RETURN(const int64_t base, bound.Integer(1, 10));
  const Value fallback = bound[0] == nullptr ? Value::Int(0) : *bound[0];
  if (value.IsUndefined()) return Unsuitable(value, "be an integer");
  if (value.IsIntegral()) return Value::Int(value.integral());
  std::optional<double> number;
  if (value.IsFloat()) {
    if (std::isinf(value.floating())) return absl::InvalidArgumentError("int of infinity");
    number = value.floating();
  } else if (value.IsString()) {
    runtime.budget.SpendBytes(value.text().size());
    const absl::string_view text = value.text().view();
    if (base == 0 || (base >= 2 && base <= 36)) {
      if (const auto parsed = IntFromText(text, static_cast<int>(base))) return Value::Int(*parsed);
    }
    number = FloatFromText(text);
  }
  if (!number.has_value()) return fallback;
  OCTAVO_ASSIGN_OR_RETURN(Value result, Truncated(*number));
  return result.IsUndefined() ? fallback : result;
}

absl::StatusOr<Value> ToFloat(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("float", args, {"default"}));
  if (value.IsUndefined()) return Unsuitable(value, "be a float");
  if (value.IsNumber()) return Value::Float(value.number());
  if (value.IsString()) {
    runtime.budget.SpendBytes(value.text().size());
    if (const auto parsed = FloatFromText(value.text().view())) return Value::Float(*parsed);
  }
  return bound[0] == nullptr ? Value::Float(0) : *bound[0];
}

absl::StatusOr<Value> Abs(Runtime&, const Value& value, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("abs", args, {}).status());
  if (value.IsFloat()) return Value::Float(std::fabs(value.floating()));
  if (!value.IsIntegral()) return Unsuitable(value, "have an absolute value");
  return value.integral() < 0 ? Negate(value) : Value::Int(value.integral());
}

// round(value, digits): exact, ties to even.
double RoundDigits(double value, int digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits < 0) {
    const double scale = std::pow(10.0, -digits);
    return std::isfinite(scale) ? std::nearbyint(value / scale) * scale : 0.0;
  }
  char buffer[700];  // 309 digits, a point, 300 decimals
  const int written = std::snprintf(buffer, sizeof(buffer), "%.*f", digits, value);
  OCTAVO_CHECK(written > 0 && static_cast<size_t>(written) < sizeof(buffer));
  double rounded = value;
  OCTAVO_CHECK(absl::SimpleAtod(buffer, &rounded));
  return rounded;
}

absl::StatusOr<Value> Round(Runtime&, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("round", args, {"precision", "method"}));
  OCTAVO_ASSIGN_OR_RETURN(const int64_t precision, bound.Integer(0, 0));
  OCTAVO_ASSIGN_OR_RETURN(const Text method, bound.String(1, "common"));
  if (!value.IsNumber()) return Unsuitable(value, "be rounded");
  const int digits = static_cast<int>(std::clamp<int64_t>(precision, -400, 400));
  if (method.view() == "common") {
    if (value.IsIntegral() && digits >= 0) return Value::Int(value.integral());
    const double rounded = RoundDigits(value.number(), digits);
    return value.IsIntegral() ? Truncated(rounded) : Value::Float(rounded);
  }
  if (method.view() != "ceil" && method.view() != "floor") {
    return absl::InvalidArgumentError("round: method is common, ceil or floor");
  }
  const double scale = std::pow(10.0, digits);
  const double scaled = value.number() * scale;
  if (!std::isfinite(scaled) || scale == 0) {
    return absl::InvalidArgumentError("round: the value cannot be rounded to that precision");
  }
  // Python's ceil and floor give integers, which have no negative zero.
  const double whole = method.view() == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return Value::Float((whole + 0.0) / scale);
}

absl::StatusOr<Value> Sum(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("sum", args, {"attribute", "start"}));
  OCTAVO_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Parse(bound[0]));
  OCTAVO_ASSIGN_OR_RETURN(const auto items, Iterate(runtime, value));
  Value total = bound[1] == nullptr ? Value::Int(0) : *bound[1];
  if (total.IsString()) return Unsuitable(total, "start a sum");
  for (const Value& item : items->items) {
    OCTAVO_ASSIGN_OR_RETURN(const Value term, path.Resolve(runtime, item));
    OCTAVO_ASSIGN_OR_RETURN(total, BinaryOperator(runtime, "+", total, term));
  }
  return total;
}

absl::StatusOr<Value> Extreme(Runtime& runtime, const Value& value, const Args& args,
                              bool largest) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind(largest ? "max" : "min", args,
                                                                 {"case_sensitive", "attribute"}));
  OCTAVO_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Parse(bound[1]));
  OCTAVO_ASSIGN_OR_RETURN(const auto items, Iterate(runtime, value));
  if (items->items.empty()) return Value::MakeUndefined("no item, the sequence is empty");
  const Value* best = nullptr;
  Value best_key;
  for (const Value& item : items->items) {
    OCTAVO_ASSIGN_OR_RETURN(Value key, path.Resolve(runtime, item));
    if (!bound.Boolean(0, false)) key = IgnoreCase(runtime, std::move(key));
    if (best != nullptr) {
      OCTAVO_ASSIGN_OR_RETURN(const bool better, largest ? Less(best_key, key, runtime.budget)
                                                         : Less(key, best_key, runtime.budget));
      if (!better) continue;
    }
    best = &item;
    best_key = std::move(key);
  }
  return *best;
}

absl::StatusOr<Value> Min(Runtime& runtime, const Value& value, const Args& args) {
  return Extreme(runtime, value, args, false);
}
absl::StatusOr<Value> Max(Runtime& runtime, const Value& value, const Args& args) {
  return Extreme(runtime, value, args, true);
}

absl::StatusOr<Value> Attr(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("attr", args, {"name"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const Text name, bound.String(0, ""));
  // Never an item: that is what distinguishes it from a dot.
  if (value.IsDict() && !HasMethod(value, name.view())) {
    return Value::MakeUndefined("a dict has no such attribute");
  }
  return GetAttribute(runtime, value, name.view());
}

absl::StatusOr<Value> WordCount(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("wordcount", args, {}).status());
  OCTAVO_ASSIGN_OR_RETURN(const Text text, Str(value, runtime.budget));
  if (!runtime.budget.Spend(static_cast<int64_t>(text.size()))) return runtime.budget.status();
  int64_t words = 0;
  for (size_t at = 0; at < text.size(); ++words) {
    while (at < text.size() && NameLength(text.view().substr(at)) == 0) ++at;
    if (at == text.size()) break;
    at += NameLength(text.view().substr(at));
  }
  return Value::Int(words);
}

constexpr NamedFilter kFilters[] = {
    {"abs", Abs},
    {"attr", Attr},
    {"d", Default},
    {"default", Default},
    {"float", ToFloat},
    {"int", ToInt},
    {"max", Max},
    {"min", Min},
    {"round", Round},
    {"sum", Sum},
    {"wordcount", WordCount},
};

}  // namespace

absl::Span<const NamedFilter> NumberFilters() { return kFilters; }

}  // namespace octavo::jinja
