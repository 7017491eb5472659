// Tests of templates: "value is name(argument)".
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_operators.h"
#include "scheduler/text/jinja_print.h"
#include "scheduler/text/jinja_runtime.h"
#include "scheduler/text/jinja_unicode.h"

namespace octavo::jinja {
namespace {

struct TypeTest {
  absl::string_view name;
  bool (*holds)(const Value& value);
};

bool IsIndexable(const Value& value) {
  return value.sequence() != nullptr && value.sequence()->IsIndexable();
}

constexpr TypeTest kTypeTests[] = {
    {"boolean", [](const Value& value) { return value.IsBool(); }},
    // Python's undefined and loop objects define __call__.
    {"callable",
     [](const Value& value) {
       return value.callable() != nullptr || value.IsUndefined() || value.loop() != nullptr;
     }},
    {"defined", [](const Value& value) { return !value.IsUndefined(); }},
    {"escaped", [](const Value& value) { return value.IsString() && value.text().is_markup(); }},
    {"false", [](const Value& value) { return value.IsBool() && !value.boolean(); }},
    {"float", [](const Value& value) { return value.IsFloat(); }},
    {"integer", [](const Value& value) { return value.IsInt(); }},
    {"iterable",
     [](const Value& value) {
       return value.IsUndefined() || value.IsString() || value.IsDict() ||
              value.sequence() != nullptr || value.loop() != nullptr;
     }},
    {"mapping", [](const Value& value) { return value.IsDict(); }},
    {"none", [](const Value& value) { return value.IsNone(); }},
    {"number", [](const Value& value) { return value.IsNumber(); }},
    {"sequence",
     [](const Value& value) {
       return value.IsUndefined() || value.IsString() || value.IsDict() || IsIndexable(value);
     }},
    {"string", [](const Value& value) { return value.IsString(); }},
    {"true", [](const Value& value) { return value.IsBool() && value.boolean(); }},
    {"undefined", [](const Value& value) { return value.IsUndefined(); }},
};

// Tests that compare with their argument, and the operator they stand for.
constexpr std::pair<absl::string_view, absl::string_view> kComparisons[] = {
    {"==", "=="},      {"eq", "=="}, {"equalto", "=="}, {"!=", "!="},
    {"ne", "!="},      {">", ">"},   {"gt", ">"},       {"greaterthan", ">"},
    {">=", ">="},      {"ge", ">="}, {"<", "<"},        {"lt", "<"},
    {"lessthan", "<"}, {"<=", "<="}, {"le", "<="},      {"in", "in"},
};

constexpr absl::string_view kOtherTests[] = {"divisibleby", "even",   "filter", "lower",
                                             "odd",         "sameas", "test",   "upper"};

const TypeTest* FindTypeTest(absl::string_view name) {
  const auto* it = std::find_if(std::begin(kTypeTests), std::end(kTypeTests),
                                [&](const TypeTest& test) { return test.name == name; });
  return it == std::end(kTypeTests) ? nullptr : it;
}

std::optional<absl::string_view> FindComparison(absl::string_view name) {
  const auto* it = std::find_if(std::begin(kComparisons), std::end(kComparisons),
                                [&](const auto& comparison) { return comparison.first == name; });
  return it == std::end(kComparisons) ? std::nullopt : std::optional(it->second);
}

absl::StatusOr<bool> RemainderIs(Runtime& runtime, const Value& value, const Value& divisor,
                                 int64_t remainder) {
  OCTAVO_ASSIGN_OR_RETURN(const Value rest, BinaryOperator(runtime, "%", value, divisor));
  return Equal(rest, Value::Int(remainder), runtime.budget);
}

bool SameObject(const Value& a, const Value& b) {
  if (a.IsNone() || b.IsNone()) return a.IsNone() && b.IsNone();
  if (a.IsBool() || b.IsBool()) return a.IsBool() && b.IsBool() && a.boolean() == b.boolean();
  if (a.IsInt() && b.IsInt()) return a.integral() == b.integral();
  if (a.IsString() && b.IsString()) return a.text().view() == b.text().view();
  if (a.IsDict() && b.IsDict()) return &a.dict() == &b.dict();
  if (a.ns() != nullptr) return a.ns() == b.ns();
  return a.sequence() != nullptr && a.sequence() == b.sequence();
}

absl::StatusOr<bool> OtherTest(Runtime& runtime, absl::string_view name, const Value& value,
                               const Args& args) {
  const bool takes_one = name == "divisibleby" || name == "sameas";
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, takes_one
                                                     ? BoundArgs::Bind(name, args, {"other"}, 1)
                                                     : BoundArgs::Bind(name, args, {}));
  if (name == "divisibleby") return RemainderIs(runtime, value, *bound[0], 0);
  if (name == "sameas") return SameObject(value, *bound[0]);
  if (name == "even") return RemainderIs(runtime, value, Value::Int(2), 0);
  if (name == "odd") return RemainderIs(runtime, value, Value::Int(2), 1);
  OCTAVO_ASSIGN_OR_RETURN(const Text text, Str(value, runtime.budget));
  if (!runtime.budget.SpendBytes(text.size() * kClassSearchCost)) return runtime.budget.status();
  if (name == "filter") return HasFilter(text.view());
  if (name == "test") return HasTest(text.view());
  return AllOfClass(text.view(), name == "upper" ? CharClass::kUpper : CharClass::kLower);
}

}  // namespace

bool HasTest(absl::string_view name) {
  return FindTypeTest(name) != nullptr || FindComparison(name).has_value() ||
         std::find(std::begin(kOtherTests), std::end(kOtherTests), name) != std::end(kOtherTests);
}

absl::StatusOr<bool> ApplyTest(Runtime& runtime, absl::string_view name, const Value& value,
                               const Args& args) {
  if (!runtime.budget.Spend(1)) return runtime.budget.status();
  if (const TypeTest* test = FindTypeTest(name)) {
    OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind(name, args, {}).status());
    return test->holds(value);
  }
  if (const auto op = FindComparison(name)) {
    OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind(name, args, {"other"}, 1));
    return CompareOperator(runtime, *op, value, *bound[0]);
  }
  if (!HasTest(name)) {
    return absl::InvalidArgumentError(absl::StrCat("no test named '", name.substr(0, 64), "'"));
  }
  return OtherTest(runtime, name, value, args);
}

}  // namespace octavo::jinja
