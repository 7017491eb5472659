// What filters and methods of str share.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_TEXT_METHODS_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_TEXT_METHODS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/text/jinja_runtime.h"

namespace octavo::jinja {

// Mapping the case of a byte may triple it, and takes longer than copying it.
inline constexpr size_t kCaseMapCost = 3;

// str.strip and its kin. chars: nullptr or none for white space. Keeps marks.
absl::StatusOr<Value> StripText(Runtime& runtime, const Text& text, const Value* chars, bool left,
                                bool right);

// str.replace; count < 0: all. Marked in full when the text or the replacement is marked.
absl::StatusOr<Value> ReplaceText(Runtime& runtime, const Text& text, const Text& from,
                                  const Text& to, int64_t count);

// separator.join(parts). Keeps marks.
absl::StatusOr<Value> JoinTexts(Runtime& runtime, const Text& separator,
                                const std::vector<Text>& parts);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_TEXT_METHODS_H_
