// Filters over sequences and dicts.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_filters.h"
#include "scheduler/text/jinja_operators.h"
#include "scheduler/text/jinja_print.h"
#include "scheduler/text/jinja_text_methods.h"
#include "scheduler/text/jinja_unicode.h"
#include "scheduler/text/utf8.h"

namespace octavo::jinja {
namespace {

using Items = std::shared_ptr<const Sequence>;

absl::StatusOr<Value> Join(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("join", args, {"d", "attribute"}));
  OCTAVO_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Parse(bound[1]));
  OCTAVO_ASSIGN_OR_RETURN(const Items items, Iterate(runtime, value));
  Text separator;
  if (bound[0] != nullptr) {
    OCTAVO_ASSIGN_OR_RETURN(separator, Str(*bound[0], runtime.budget));
  }
  std::vector<Text> parts;
  parts.reserve(items->items.size());
  for (const Value& item : items->items) {
    OCTAVO_ASSIGN_OR_RETURN(const Value part, path.Resolve(runtime, item));
    OCTAVO_ASSIGN_OR_RETURN(Text text, Str(part, runtime.budget));
    parts.push_back(std::move(text));
  }
  return JoinTexts(runtime, separator, parts);
}

absl::StatusOr<Value> First(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("first", args, {}).status());
  const Sequence* sequence = value.sequence();
  if (sequence != nullptr && sequence->kind == Sequence::Kind::kGenerator &&
      sequence->taken < sequence->items.size()) {
    return sequence->items[sequence->taken++];
  }
  if (value.IsString() && !value.text().empty()) {
    return Value(value.text().Substr(0, Utf8SequenceLength(value.text().view()[0])));
  }
  OCTAVO_ASSIGN_OR_RETURN(const Items items, Iterate(runtime, value));
  if (items->items.empty()) return Value::MakeUndefined("no first item, the sequence is empty");
  return items->items.front();
}

absl::StatusOr<Value> Last(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("last", args, {}).status());
  const Sequence* sequence = value.sequence();
  if (sequence != nullptr && sequence->kind == Sequence::Kind::kGenerator) {
    return Unsuitable(value, "be read backwards: use | list first");
  }
  if (value.IsString() && !value.text().empty()) {
    const size_t length = LastLength(value.text().view());
    return Value(value.text().Substr(value.text().size() - length));
  }
  OCTAVO_ASSIGN_OR_RETURN(const Items items, Iterate(runtime, value));
  if (items->items.empty()) return Value::MakeUndefined("no last item, the sequence is empty");
  return items->items.back();
}

absl::StatusOr<Value> List(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("list", args, {}).status());
  OCTAVO_ASSIGN_OR_RETURN(const Items items, Iterate(runtime, value));
  if (items->kind == Sequence::Kind::kList) return Value(items);
  return MakeSequence(runtime.budget, Sequence::Kind::kList, items->items);
}

absl::StatusOr<Value> Reverse(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("reverse", args, {}).status());
  if (value.IsString()) {
    return GetSlice(runtime, value, Value::MakeNone(), Value::MakeNone(), Value::Int(-1));
  }
  const bool was_generator =
      value.sequence() != nullptr && value.sequence()->kind == Sequence::Kind::kGenerator;
  OCTAVO_ASSIGN_OR_RETURN(const Items items, Iterate(runtime, value));
  // Python reverses what has no length or order into a list, anything else lazily.
  return MakeSequence(runtime.budget,
                      was_generator ? Sequence::Kind::kList : Sequence::Kind::kGenerator,
                      {items->items.rbegin(), items->items.rend()});
}

absl::StatusOr<Value> LengthFilter(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("length", args, {}).status());
  OCTAVO_ASSIGN_OR_RETURN(const int64_t length, Length(runtime, value));
  return Value::Int(length);
}

absl::StatusOr<Value> ItemsFilter(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("items", args, {}).status());
  std::vector<Value> pairs;
  if (value.IsDict()) {
    for (const auto& [key, item] : value.dict().entries()) {
      pairs.push_back(MakeSequence(runtime.budget, Sequence::Kind::kTuple, {key, item}));
    }
  } else if (!value.IsUndefined()) {
    return Unsuitable(value, "give pairs of keys and values");
  }
  return MakeSequence(runtime.budget, Sequence::Kind::kGenerator, std::move(pairs));
}

// "a,b.c" sorts by a first, then by b.c.
absl::StatusOr<Value> SortKey(Runtime& runtime, const Value& item,
                              const std::vector<AttributePath>& paths, bool ignore_case) {
  std::vector<Value> parts;
  for (const AttributePath& path : paths) {
    OCTAVO_ASSIGN_OR_RETURN(Value part, path.Resolve(runtime, item));
    parts.push_back(ignore_case ? IgnoreCase(runtime, std::move(part)) : std::move(part));
  }
  return MakeSequence(runtime.budget, Sequence::Kind::kList, std::move(parts));
}

absl::StatusOr<Value> Sort(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(
      const BoundArgs bound,
      BoundArgs::Bind("sort", args, {"reverse", "case_sensitive", "attribute"}));
  const bool ignore_case = !bound.Boolean(1, false);
  std::vector<AttributePath> paths;
  if (bound[2] != nullptr && bound[2]->IsString()) {
    for (const absl::string_view one : absl::StrSplit(bound[2]->text().view(), ',')) {
      const Value attribute = Value::String(one);
      OCTAVO_ASSIGN_OR_RETURN(AttributePath path, AttributePath::Parse(&attribute));
      paths.push_back(std::move(path));
    }
  } else {
    OCTAVO_ASSIGN_OR_RETURN(AttributePath path, AttributePath::Parse(bound[2]));
    paths.push_back(std::move(path));
  }
  OCTAVO_ASSIGN_OR_RETURN(const Items items, Iterate(runtime, value));
  std::vector<Value> keys;
  for (const Value& item : items->items) {
    OCTAVO_ASSIGN_OR_RETURN(Value key, SortKey(runtime, item, paths, ignore_case));
    keys.push_back(std::move(key));
  }
  OCTAVO_ASSIGN_OR_RETURN(std::vector<Value> sorted,
                          SortBy(runtime, items->items, keys, bound.Boolean(0, false)));
  return MakeSequence(runtime.budget, Sequence::Kind::kList, std::move(sorted));
}

absl::StatusOr<Value> DictSort(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("dictsort", args, {"case_sensitive", "by", "reverse"}));
  if (!value.IsDict()) return Unsuitable(value, "be sorted as a dict");
  OCTAVO_ASSIGN_OR_RETURN(const Text by, bound.String(1, "key"));
  if (by.view() != "key" && by.view() != "value") {
    return absl::InvalidArgumentError("dictsort: by is \"key\" or \"value\"");
  }
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const auto& [key, item] : value.dict().entries()) {
    pairs.push_back(MakeSequence(runtime.budget, Sequence::Kind::kTuple, {key, item}));
    const Value& chosen = by.view() == "key" ? key : item;
    keys.push_back(bound.Boolean(0, false) ? chosen : IgnoreCase(runtime, chosen));
  }
  OCTAVO_ASSIGN_OR_RETURN(std::vector<Value> sorted,
                          SortBy(runtime, pairs, keys, bound.Boolean(2, false)));
  return MakeSequence(runtime.budget, Sequence::Kind::kList, std::move(sorted));
}

absl::StatusOr<Value> Unique(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("unique", args, {"case_sensitive", "attribute"}));
  OCTAVO_ASSIGN_OR_RETURN(const AttributePath path, AttributePath::Parse(bound[1]));
  OCTAVO_ASSIGN_OR_RETURN(const Items items, Iterate(runtime, value));
  Dict seen;
  std::vector<Value> unique;
  for (const Value& item : items->items) {
    OCTAVO_ASSIGN_OR_RETURN(Value key, path.Resolve(runtime, item));
    if (!bound.Boolean(0, false)) key = IgnoreCase(runtime, std::move(key));
    if (!Dict::IsKey(key)) return Unsuitable(key, "be told apart by unique");
    if (!runtime.budget.Allocate(sizeof(Dict::Entry))) return runtime.budget.status();
    if (seen.Find(key) != nullptr) continue;
    seen.Set(std::move(key), Value::MakeNone());
    unique.push_back(item);
  }
  return MakeSequence(runtime.budget, Sequence::Kind::kGenerator, std::move(unique));
}

absl::StatusOr<Value> Batch(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("batch", args, {"linecount", "fill_with"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const int64_t size, bound.Integer(0, 1));
  if (size <= 0) return absl::InvalidArgumentError(absl::StrCat("batch: linecount is ", size));
  OCTAVO_ASSIGN_OR_RETURN(const Items items, Iterate(runtime, value));
  std::vector<Value> batches;
  for (size_t at = 0; at < items->items.size();) {
    const size_t end = at + std::min(items->items.size() - at, static_cast<size_t>(size));
    std::vector<Value> batch(items->items.begin() + static_cast<std::ptrdiff_t>(at),
                             items->items.begin() + static_cast<std::ptrdiff_t>(end));
    if (bound[1] != nullptr && !bound[1]->IsNone()) {
      if (!runtime.budget.Spend(size)) return runtime.budget.status();
      batch.resize(static_cast<size_t>(size), *bound[1]);
    }
    batches.push_back(MakeSequence(runtime.budget, Sequence::Kind::kList, std::move(batch)));
    at = end;
  }
  return MakeSequence(runtime.budget, Sequence::Kind::kGenerator, std::move(batches));
}

constexpr NamedFilter kFilters[] = {
    {"batch", Batch},     {"count", LengthFilter},  {"dictsort", DictSort},
    {"first", First},     {"items", ItemsFilter},   {"join", Join},
    {"last", Last},       {"length", LengthFilter}, {"list", List},
    {"reverse", Reverse}, {"sort", Sort},           {"unique", Unique},
};

}  // namespace

absl::Span<const NamedFilter> SequenceFilters() { return kFilters; }

}  // namespace octavo::jinja
