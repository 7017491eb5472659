// Filters of templates, by family. ApplyFilter (jinja_runtime.h) finds them by name.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_FILTERS_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_FILTERS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "scheduler/text/jinja_runtime.h"

namespace octavo::jinja {

using Filter = absl::StatusOr<Value> (*)(Runtime& runtime, const Value& value, const Args& args);

struct NamedFilter {
  absl::string_view name;
  Filter filter;
};

absl::Span<const NamedFilter> TextFilters();      // trim, upper, replace, tojson, indent, ...
absl::Span<const NamedFilter> SequenceFilters();  // join, first, last, list, reverse, sort, ...
absl::Span<const NamedFilter> SelectFilters();    // map, select, reject, selectattr, rejectattr
absl::Span<const NamedFilter> NumberFilters();    // int, float, abs, round, sum, min, max, ...

// "a.b.0", or a number: the path of attributes and items that filters take as `attribute`.
class AttributePath {
 public:
  // No attribute (nullptr or none): the item itself.
  static absl::StatusOr<AttributePath> Parse(const Value* attribute);
  absl::StatusOr<Value> Resolve(Runtime& runtime, Value item,
                                const Value* fallback = nullptr) const;
  bool empty() const { return parts_.empty(); }

 private:
  std::vector<Value> parts_;
};

// Text in lower case, anything else as it is: how filters compare when case does not matter.
Value IgnoreCase(Runtime& runtime, Value value);

// Orders items by the given keys, stably; INVALID_ARGUMENT when two keys cannot be ordered.
absl::StatusOr<std::vector<Value>> SortBy(Runtime& runtime, const std::vector<Value>& items,
                                          const std::vector<Value>& keys, bool reverse);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_FILTERS_H_
