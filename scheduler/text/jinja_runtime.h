// What filters, tests, methods and functions of templates share: the render's budget and clock, and
// arguments.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_RUNTIME_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_RUNTIME_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/text/jinja_budget.h"
#include "scheduler/text/jinja_value.h"

namespace octavo::jinja {

struct Runtime {
  Budget& budget;
  absl::Time now;
  absl::TimeZone time_zone;
};

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  bool names_marked = false;  // a name came from the request, through f(**dict)
};

// Arguments by parameter, as a Python signature would bind them.
class BoundArgs {
 public:
  // INVALID_ARGUMENT for too many, unknown, repeated, or fewer than `required` arguments.
  static absl::StatusOr<BoundArgs> Bind(absl::string_view function, const Args& args,
                                        std::initializer_list<absl::string_view> params,
                                        size_t required = 0);

  // nullptr when not passed.
  const Value* operator[](size_t param) const { return values_[param]; }

  // The argument, or `fallback` when not passed; INVALID_ARGUMENT for another type.
  absl::StatusOr<int64_t> Integer(size_t param, int64_t fallback) const;
  absl::StatusOr<Text> String(size_t param, absl::string_view fallback) const;
  bool Boolean(size_t param, bool fallback) const;

 private:
  static constexpr size_t kMaxParams = 5;

  std::string function_;
  std::array<const Value*, kMaxParams> values_ = {};
};

// The items that iterating over `value` gives; takes them from a generator. INVALID_ARGUMENT when
// it cannot be iterated.
absl::StatusOr<std::shared_ptr<const Sequence>> Iterate(Runtime& runtime, const Value& value);

// INVALID_ARGUMENT with the undefined value's own message, or "a TYPE cannot ...".
absl::Status Unsuitable(const Value& value, absl::string_view what);

absl::StatusOr<Value> ApplyFilter(Runtime& runtime, absl::string_view name, const Value& value,
                                  const Args& args);
absl::StatusOr<bool> ApplyTest(Runtime& runtime, absl::string_view name, const Value& value,
                               const Args& args);
// Calls a method of str, list, tuple or dict.
absl::StatusOr<Value> CallMethod(Runtime& runtime, const Value& self, absl::string_view name,
                                 const Args& args);
// Whether `value` has a method of that name which the sandbox lets templates call. Those that would
// change a list or dict are not among them.
bool HasMethod(const Value& value, absl::string_view name);
// Whether the name exists in Python but is out of reach: such an attribute never falls back to an
// item of that name.
bool IsHiddenAttribute(const Value& value, absl::string_view name);

bool HasFilter(absl::string_view name);
bool HasTest(absl::string_view name);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_RUNTIME_H_
