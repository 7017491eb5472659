#include "scheduler/text/jinja_filters.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_operators.h"
#include "scheduler/text/jinja_text_methods.h"
#include "scheduler/text/jinja_unicode.h"

namespace octavo::jinja {
namespace {

const absl::flat_hash_map<absl::string_view, Filter>& AllFilters() {
  static const auto* const all = [] {
    auto* filters = new absl::flat_hash_map<absl::string_view, Filter>();
    for (const auto family : {TextFilters(), SequenceFilters(), SelectFilters(), NumberFilters()}) {
      for (const NamedFilter& named : family) filters->emplace(named.name, named.filter);
    }
    return filters;
  }();
  return *all;
}

}  // namespace

bool HasFilter(absl::string_view name) { return AllFilters().contains(name); }

absl::StatusOr<Value> ApplyFilter(Runtime& runtime, absl::string_view name, const Value& value,
                                  const Args& args) {
  if (!runtime.budget.Spend(1)) return runtime.budget.status();
  const auto it = AllFilters().find(name);
  if (it == AllFilters().end()) {
    return absl::InvalidArgumentError(absl::StrCat("no filter named '", name.substr(0, 64), "'"));
  }
  return it->second(runtime, value, args);
}

absl::StatusOr<AttributePath> AttributePath::Parse(const Value* attribute) {
  AttributePath path;
  if (attribute == nullptr || attribute->IsNone()) return path;
  if (!attribute->IsString()) {
    path.parts_.push_back(*attribute);
    return path;
  }
  for (const absl::string_view part : absl::StrSplit(attribute->text().view(), '.')) {
    int64_t index = 0;
    const bool is_index = AllOfClass(part, CharClass::kDecimal) && absl::SimpleAtoi(part, &index);
    path.parts_.push_back(is_index ? Value::Int(index) : Value::String(part));
  }
  return path;
}

absl::StatusOr<Value> AttributePath::Resolve(Runtime& runtime, Value item,
                                             const Value* fallback) const {
  for (const Value& part : parts_) {
    OCTAVO_ASSIGN_OR_RETURN(item, GetItem(runtime, item, part));
    if (fallback != nullptr && !fallback->IsNone() && item.IsUndefined()) item = *fallback;
  }
  return item;
}

Value IgnoreCase(Runtime& runtime, Value value) {
  if (!value.IsString()) return value;
  if (!runtime.budget.Allocate(value.text().size() * kCaseMapCost)) return Value(Text());
  return MakeText(runtime.budget, ToLower(value.text().view()), value.text().AnyMarked());
}

absl::StatusOr<std::vector<Value>> SortBy(Runtime& runtime, const std::vector<Value>& items,
                                          const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  absl::Status failed;
  const auto less = [&](size_t a, size_t b) {
    const absl::StatusOr<bool> result =
        reverse ? Less(keys[b], keys[a], runtime.budget) : Less(keys[a], keys[b], runtime.budget);
    if (!result.ok()) failed.Update(result.status());
    return result.ok() && *result;
  };
  std::stable_sort(order.begin(), order.end(), less);
  OCTAVO_RETURN_IF_ERROR(failed);
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t index : order) sorted.push_back(items[index]);
  return sorted;
}

}  // namespace octavo::jinja
