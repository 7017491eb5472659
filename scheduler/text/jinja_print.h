// Values as text: Python's str() and repr().
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_PRINT_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_PRINT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/text/jinja_value.h"

namespace octavo::jinja {

// repr(float): the shortest digits that read back as the same number.
std::string FormatFloat(double value);

// str(value); INVALID_ARGUMENT for functions, generators and the like, whose Python form names an
// address. Strings keep their marks; a container with a marked string inside is marked in full.
absl::StatusOr<Text> Str(const Value& value, Budget& budget);
absl::StatusOr<Text> Repr(const Value& value, Budget& budget);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_PRINT_H_
