// Time as a seam, so that everything above the core can be tested with a clock that a test moves.
#ifndef OCTAVO_COMMON_CLOCK_H_
#define OCTAVO_COMMON_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace octavo {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

class SystemClock : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

class ManualClock : public Clock {
 public:
  absl::Time Now() const override { return now_; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  absl::Time now_ = absl::UnixEpoch();
};

}  // namespace octavo

#endif  // OCTAVO_COMMON_CLOCK_H_
