// Which work of the device is ordered before which: one vector clock per stream.
#ifndef OCTAVO_TESTS_EMULATION_STREAM_CLOCK_H_
#define OCTAVO_TESTS_EMULATION_STREAM_CLOCK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace octavo::emulation {

// [actor]: so many of its operations. Actors are the host, streams, and branches of graphs.
using Ticks = std::vector<uint32_t>;

// An operation, and what is ordered before it besides its own actor's earlier ones.
struct Moment {
  uint32_t actor = 0;
  uint32_t tick = 0;
  std::shared_ptr<const Ticks> known;  // nullptr: nothing
};
inline uint32_t TickOf(const std::shared_ptr<const Ticks>& known, uint32_t actor) {
  return known && actor < known->size() ? (*known)[actor] : 0;
}
// Whether operation `tick` of `actor` is ordered before `later`.
inline bool Ordered(uint32_t actor, uint32_t tick, const Moment& later) {
  return actor == later.actor || TickOf(later.known, actor) >= tick;
}

class StreamClock {
 public:
  explicit StreamClock(uint32_t actor = 0) : now_{actor, 0, nullptr} {}
  explicit StreamClock(Moment now) : now_(std::move(now)) {}

  const Moment& now() const { return now_; }
  uint32_t actor() const { return now_.actor; }
  // The actor's next operation.
  const Moment& Next() {
    ++now_.tick;
    return now_;
  }
  // As many at once, for those that a graph holds.
  void Advance(uint32_t operations) { now_.tick += operations; }
  // `moment` and all before it are ordered before what comes.
  void Join(const Moment& moment) {
    const size_t size = moment.known ? moment.known->size() : 0;
    bool knows = moment.actor == now_.actor || TickOf(now_.known, moment.actor) >= moment.tick;
    for (size_t i = 0; knows && moment.known != now_.known && i < size; ++i)
      knows = TickOf(now_.known, static_cast<uint32_t>(i)) >= (*moment.known)[i];
    if (knows) return;
    auto joined = std::make_shared<Ticks>(now_.known ? *now_.known : Ticks());
    if (joined->size() < size) joined->resize(size);
    if (joined->size() <= moment.actor) joined->resize(size_t{moment.actor} + 1);
    for (size_t i = 0; i < size; ++i)
      if ((*moment.known)[i] > (*joined)[i]) (*joined)[i] = (*moment.known)[i];
    if (moment.tick > (*joined)[moment.actor]) (*joined)[moment.actor] = moment.tick;
    now_.known = std::move(joined);
  }

 private:
  Moment now_;
};

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_STREAM_CLOCK_H_
