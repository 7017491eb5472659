// What one render may cost. Templates come with checkpoints and conversations from clients, so both
// are bounded: RESOURCE_EXHAUSTED names the limit.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_BUDGET_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace octavo {

struct RenderLimits {
  int64_t max_output_bytes = 16 << 20;
  // Evaluated nodes plus work in proportion to the text and the items that operations touch.
  int64_t max_steps = 10'000'000;
  // Bytes of all strings and containers made in one render, whether still alive or not.
  int64_t max_memory_bytes = 256 << 20;
  // Nested evaluations: blocks, expressions and macro calls on the stack.
  int max_depth = 600;
};

namespace jinja {

// Lists in lists, dicts in dicts: bounds every recursive walk over a value.
inline constexpr int kMaxValueDepth = 100;

// Counts down and stays exhausted: code that runs out returns any value, and the interpreter, which
// spends a step per node and looks again at the end, reports status().
class Budget {
 public:
  explicit Budget(const RenderLimits& limits)
      : limits_(limits), steps_left_(limits.max_steps), bytes_left_(limits.max_memory_bytes) {}

  bool Spend(int64_t steps) {
    if (steps <= steps_left_) {
      steps_left_ -= steps;
      return status_.ok();
    }
    Exhaust("steps", limits_.max_steps);
    return false;
  }
  // Walking over `bytes` of text costs steps too.
  bool SpendBytes(size_t bytes) { return Spend(static_cast<int64_t>(bytes / kBytesPerStep)); }

  bool Allocate(size_t bytes) {
    if (bytes <= static_cast<size_t>(bytes_left_)) {
      bytes_left_ -= static_cast<int64_t>(bytes);
      return SpendBytes(bytes);
    }
    Exhaust("bytes of strings and containers", limits_.max_memory_bytes);
    return false;
  }

  void Exhaust(absl::string_view what, int64_t limit) {
    if (!status_.ok()) return;
    status_ = absl::ResourceExhaustedError(
        absl::StrCat("needs more than the limit of ", limit, " ", what));
  }

  const RenderLimits& limits() const { return limits_; }
  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

 private:
  static constexpr size_t kBytesPerStep = 32;

  RenderLimits limits_;
  int64_t steps_left_;
  int64_t bytes_left_;
  absl::Status status_;
};

}  // namespace jinja
}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_BUDGET_H_
