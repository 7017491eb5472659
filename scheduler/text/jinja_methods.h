// Methods of str, list, tuple and dict, by family. CallMethod (jinja_runtime.h) finds them by name.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_METHODS_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_METHODS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "scheduler/text/jinja_runtime.h"

namespace octavo::jinja {

using Method = absl::StatusOr<Value> (*)(Runtime& runtime, const Value& self, const Args& args);

struct NamedMethod {
  absl::string_view name;
  Method method;
};

absl::Span<const NamedMethod> CuttingMethods();  // of str: strip, split, replace, join, ...
absl::Span<const NamedMethod> LookingMethods();  // of str: find, startswith, isdigit, upper, ...
absl::Span<const NamedMethod> DictMethods();
absl::Span<const NamedMethod> ListMethods();  // of lists and tuples

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_METHODS_H_
