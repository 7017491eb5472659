// Operators, attributes, items and slices, as Python and Jinja's sandbox define them.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_OPERATORS_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_OPERATORS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/text/jinja_runtime.h"

namespace octavo::jinja {

// + - * / // % **. Integers past int64 are an error, where Python would go on.
absl::StatusOr<Value> BinaryOperator(Runtime& runtime, absl::string_view op, const Value& left,
                                     const Value& right);
absl::StatusOr<Value> Negate(const Value& value);

// == != < <= > >= in notin.
absl::StatusOr<bool> CompareOperator(Runtime& runtime, absl::string_view op, const Value& left,
                                     const Value& right);
// needle in haystack.
absl::StatusOr<bool> Contains(Runtime& runtime, const Value& haystack, const Value& needle);

// left ~ right: both as text.
absl::StatusOr<Text> ConcatText(Runtime& runtime, const Text& left, const Text& right);

// object.name: a method or attribute first, then the item of that name, else undefined.
absl::StatusOr<Value> GetAttribute(Runtime& runtime, const Value& object, absl::string_view name);
// object[key]: the item first, then the attribute, else undefined.
absl::StatusOr<Value> GetItem(Runtime& runtime, const Value& object, const Value& key);
// object[start:stop:step]; absent bounds are undefined or none.
absl::StatusOr<Value> GetSlice(Runtime& runtime, const Value& object, const Value& start,
                               const Value& stop, const Value& step);

// len(value).
absl::StatusOr<int64_t> Length(Runtime& runtime, const Value& value);

// &, <, >, " and ' as HTML entities; marked in full when `text` is marked.
Text EscapeHtml(Runtime& runtime, const Text& text);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_OPERATORS_H_
