#include "tests/emulation/access_history.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace octavo::emulation {
namespace {

TEST(AccessHistory, OnlyWhatNothingOrdersConflicts) {
  AccessHistory history;
  StreamClock first(1), second(2);
  EXPECT_FALSE(history.Record({100, 200}, true, first.Next(), 0));
  const auto conflict = history.Record({150, 160}, false, second.Next(), 1);
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->bytes.begin, 150u);
  EXPECT_EQ(conflict->bytes.end, 160u);
  EXPECT_EQ(conflict->other, (Access{1, 1, 0}));
  EXPECT_TRUE(conflict->other_writes);
  second.Join(first.now());
  EXPECT_FALSE(history.Record({160, 300}, false, second.Next(), 1));
  // Reads of two streams are no conflict, a write after both is one.
  EXPECT_FALSE(history.Record({160, 170}, false, first.Next(), 0));
  EXPECT_TRUE(history.Record({165, 166}, true, first.Next(), 0));
}

TEST(AccessHistory, EqualNeighboursAreOnePiece) {
  AccessHistory history;
  StreamClock stream(1);
  const Moment moment = stream.Next();
  for (const uintptr_t begin : {0, 20, 40, 10, 30})
    EXPECT_FALSE(history.Record({begin, begin + 10}, true, moment, 0));
  EXPECT_EQ(history.num_pieces(), 1u);
  EXPECT_FALSE(history.Record({5, 6}, false, stream.Next(), 0));
  EXPECT_EQ(history.num_pieces(), 3u);
  history.Forget({6, 40});
  EXPECT_EQ(history.num_pieces(), 3u);  // [0, 5), [5, 6), [40, 50)
  history.Prune([](const Access& access) { return access.tick == 1; });
  EXPECT_EQ(history.num_pieces(), 1u);
}

// Against one shadow per byte that keeps every access.
TEST(AccessHistory, FindsTheRacesOfAPlainShadow) {
  struct Plain {
    Moment moment;
    bool write;
  };
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    std::vector<StreamClock> streams = {StreamClock(1), StreamClock(2), StreamClock(3)};
    AccessHistory history;
    std::map<uintptr_t, std::vector<Plain>> shadow;
    for (int step = 0; step < 60; ++step) {
      StreamClock& stream = streams[below(3)];
      if (below(2) == 0) stream.Join(streams[below(3)].now());
      const uintptr_t begin = below(40), end = begin + 1 + below(12);
      const bool write = below(3) == 0;
      const Moment moment = stream.Next();
      bool race = false;
      for (uintptr_t at = begin; at < end; ++at) {
        for (const Plain& other : shadow[at])
          race |= (write || other.write) && !Ordered(other.moment.actor, other.moment.tick, moment);
        shadow[at].push_back({moment, write});
      }
      ASSERT_EQ(history.Record({begin, end}, write, moment, 0).has_value(), race)
          << "seed " << seed << " step " << step;
      if (race) break;  // what follows a race need not be seen
    }
  }
}

}  // namespace
}  // namespace octavo::emulation
