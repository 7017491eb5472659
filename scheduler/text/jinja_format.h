// Formatting: "%s" % value, and dates.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_FORMAT_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_FORMAT_H_

#include "absl/status/statusor.h"
#include "scheduler/text/jinja_runtime.h"

namespace octavo::jinja {

// Python's format % argument with the conversions d i u s r f F e E g G x X o c. Marked in full
// when the format or any argument used is.
absl::StatusOr<Text> FormatPercent(Runtime& runtime, const Text& format, const Value& argument);

// datetime.now().strftime(format) for the runtime's clock and zone, English names.
absl::StatusOr<Text> FormatTime(Runtime& runtime, const Text& format);

// value with its code points centred (or left- or right-aligned) in `width`.
enum class Alignment { kLeft, kCenter, kRight };
absl::StatusOr<Text> Pad(Runtime& runtime, const Text& value, int64_t width, Alignment alignment,
                         const Text& fill);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_FORMAT_H_
