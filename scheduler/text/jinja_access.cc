// Attributes, items and slices.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_operators.h"
#include "scheduler/text/jinja_unicode.h"
#include "scheduler/text/utf8.h"

namespace octavo::jinja {
namespace {

Value Missing(const Value& object, absl::string_view name) {
  return Value::MakeUndefined(
      absl::StrCat("a ", TypeName(object), " has no '", name.substr(0, 64), "'"));
}

std::optional<Value> LoopAttribute(const LoopState& loop, absl::string_view name) {
  const std::vector<Value>& items = loop.items->items;
  const auto index = static_cast<int64_t>(loop.index);
  const auto length = static_cast<int64_t>(items.size());
  if (name == "index") return Value::Int(index + 1);
  if (name == "index0") return Value::Int(index);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index + 1 >= length);
  if (name == "length") return Value::Int(length);
  if (name == "revindex") return Value::Int(length - index);
  if (name == "revindex0") return Value::Int(length - index - 1);
  if (name == "depth") return Value::Int(1);
  if (name == "depth0") return Value::Int(0);
  if (name == "previtem") {
    return index == 0 ? Value::MakeUndefined("there is no previous item") : items[loop.index - 1];
  }
  if (name == "nextitem") {
    return index + 1 >= length ? Value::MakeUndefined("there is no next item")
                               : items[loop.index + 1];
  }
  return std::nullopt;
}

// What Python's getattr finds, methods included; nullopt where it raises AttributeError.
std::optional<Value> PythonAttribute(Runtime& runtime, const Value& object,
                                     absl::string_view name) {
  if (const LoopState* loop = object.loop()) {
    if (auto value = LoopAttribute(*loop, name)) return value;
    if (name != "cycle" && name != "changed") return std::nullopt;
    return MakeMethod(runtime.budget, object, name);
  }
  if (const Namespace* ns = object.ns()) {
    const auto it = ns->attributes.find(name);
    return it == ns->attributes.end() ? std::nullopt : std::optional<Value>(it->second);
  }
  if (HasMethod(object, name)) return MakeMethod(runtime.budget, object, name);
  if (IsHiddenAttribute(object, name)) {
    return Value::MakeUndefined(absl::StrCat("access to attribute '", name, "' of a ",
                                             TypeName(object), " is not allowed"));
  }
  return std::nullopt;
}

std::optional<Value> PythonItem(Runtime& runtime, const Value& object, const Value& key) {
  if (object.IsDict()) {
    const Value* found = object.dict().Find(key);
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (!key.IsIntegral()) return std::nullopt;
  int64_t index = key.integral();
  if (object.IsString()) {
    const Text& text = object.text();
    runtime.budget.SpendBytes(text.size());
    if (index < 0) index += static_cast<int64_t>(CountCodePoints(text.view()));
    if (index < 0) return std::nullopt;
    const size_t at = OffsetOf(text.view(), static_cast<size_t>(index));
    if (at == text.size()) return std::nullopt;
    return Value(text.Substr(at, Utf8SequenceLength(text.view()[at])));
  }
  const Sequence* sequence = object.sequence();
  if (sequence == nullptr || !sequence->IsIndexable()) return std::nullopt;
  const auto size = static_cast<int64_t>(sequence->items.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return sequence->items[static_cast<size_t>(index)];
}

// Python's slice.indices(): the places that a slice picks from `size` items.
struct SliceRange {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

absl::StatusOr<SliceRange> ResolveSlice(const Value& start, const Value& stop, const Value& step,
                                        int64_t size) {
  for (const Value* bound : {&start, &stop, &step}) {
    if (!bound->IsNone() && !bound->IsIntegral()) return Unsuitable(*bound, "bound a slice");
  }
  SliceRange range;
  range.step = step.IsNone() ? 1 : step.integral();
  if (range.step == 0) return absl::InvalidArgumentError("the step of a slice is 0");
  range.step = std::clamp<int64_t>(range.step, -size - 1, size + 1);
  const bool forward = range.step > 0;
  const int64_t low = forward ? 0 : -1;
  const int64_t high = forward ? size : size - 1;
  const auto place = [&](const Value& bound, int64_t absent) {
    if (bound.IsNone()) return absent;
    const int64_t value = bound.integral();
    return std::clamp<int64_t>(value < 0 ? std::max(value, -size - 1) + size : value, low, high);
  };
  range.start = place(start, forward ? 0 : size - 1);
  const int64_t end = place(stop, forward ? size : -1);
  const int64_t distance = forward ? end - range.start : range.start - end;
  const int64_t stride = forward ? range.step : -range.step;
  range.count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  return range;
}

absl::StatusOr<Value> SliceText(Runtime& runtime, const Text& text, const Value& start,
                                const Value& stop, const Value& step) {
  runtime.budget.SpendBytes(text.size());
  const absl::string_view view = text.view();
  const auto size = static_cast<int64_t>(CountCodePoints(view));
  OCTAVO_ASSIGN_OR_RETURN(const SliceRange range, ResolveSlice(start, stop, step, size));
  if (range.count == 0) return Value(Text());
  if (range.step == 1) {
    const size_t begin = OffsetOf(view, static_cast<size_t>(range.start));
    return Value(
        text.Substr(begin, OffsetOf(view.substr(begin), static_cast<size_t>(range.count))));
  }
  if (!runtime.budget.Allocate(text.size() * sizeof(size_t))) return runtime.budget.status();
  std::vector<size_t> offsets;
  for (size_t at = 0; at < view.size(); at += Utf8SequenceLength(view[at])) offsets.push_back(at);
  TextBuilder builder;
  for (int64_t i = 0, at = range.start; i < range.count; ++i, at += range.step) {
    const size_t offset = offsets[static_cast<size_t>(at)];
    builder.Append(text.Substr(offset, Utf8SequenceLength(view[offset])));
  }
  return Value(builder.Finish());
}

}  // namespace

absl::StatusOr<Value> GetAttribute(Runtime& runtime, const Value& object, absl::string_view name) {
  if (object.IsUndefined()) {
    return absl::InvalidArgumentError(
        absl::StrCat(object.UndefinedMessage(), ", so it has no '", name.substr(0, 64), "'"));
  }
  if (auto value = PythonAttribute(runtime, object, name)) return *std::move(value);
  if (object.IsDict()) {
    if (const Value* found = object.dict().Find(name)) return *found;
  }
  return Missing(object, name);
}

absl::StatusOr<Value> GetItem(Runtime& runtime, const Value& object, const Value& key) {
  if (object.IsUndefined()) return absl::InvalidArgumentError(object.UndefinedMessage());
  if (auto value = PythonItem(runtime, object, key)) return *std::move(value);
  if (!key.IsString()) {
    return Missing(object, key.IsIntegral() ? absl::StrCat("[", key.integral(), "]")
                                            : absl::StrCat("[", TypeName(key), "]"));
  }
  const absl::string_view name = key.text().view();
  if (auto value = PythonAttribute(runtime, object, name)) return *std::move(value);
  return Missing(object, name);
}

absl::StatusOr<Value> GetSlice(Runtime& runtime, const Value& object, const Value& start,
                               const Value& stop, const Value& step) {
  if (object.IsString()) return SliceText(runtime, object.text(), start, stop, step);
  const Sequence* sequence = object.sequence();
  if (sequence == nullptr || !sequence->IsIndexable()) return Unsuitable(object, "be sliced");
  const auto size = static_cast<int64_t>(sequence->items.size());
  OCTAVO_ASSIGN_OR_RETURN(const SliceRange range, ResolveSlice(start, stop, step, size));
  if (!runtime.budget.Spend(range.count)) return runtime.budget.status();
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(range.count));
  for (int64_t i = 0, at = range.start; i < range.count; ++i, at += range.step) {
    items.push_back(sequence->items[static_cast<size_t>(at)]);
  }
  return MakeSequence(runtime.budget, sequence->kind, std::move(items));
}

}  // namespace octavo::jinja
