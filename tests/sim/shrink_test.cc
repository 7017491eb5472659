#include "tests/sim/shrink.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/scheduler_sim.h"

namespace octavo {
namespace {

SimCommand Abort(RequestId id) { return {.kind = SimCommand::Kind::kAbort, .id = id}; }

TEST(Shrink, KeepsOnlyWhatTheFailureNeeds) {
  std::vector<SimCommand> commands;
  for (RequestId id = 1; id <= 200; ++id) commands.push_back(Abort(id));
  const auto fails = [](std::span<const SimCommand> some) {
    const auto has = [&](RequestId id) {
      return std::any_of(some.begin(), some.end(), [id](const auto& c) { return c.id == id; });
    };
    return has(17) && has(90) && has(171);
  };
  const std::vector<SimCommand> shrunk = Shrink(commands, fails, 10000);
  ASSERT_EQ(shrunk.size(), 3u);
  EXPECT_EQ(shrunk[0].id, 17u);
  EXPECT_EQ(shrunk[1].id, 90u);
  EXPECT_EQ(shrunk[2].id, 171u);
}

TEST(Shrink, ShortensRequests) {
  SimCommand add{.kind = SimCommand::Kind::kAdd};
  add.request.prompt.assign(64, 1);
  add.request.max_tokens = 40;
  add.request.n = 8;
  const auto fails = [](std::span<const SimCommand> some) {
    return some.size() == 1 && some[0].request.prompt.size() >= 5 && some[0].request.n >= 2;
  };
  const std::vector<SimCommand> shrunk = Shrink({add}, fails, 100);
  EXPECT_EQ(shrunk[0].request.prompt.size(), 8u);
  EXPECT_EQ(shrunk[0].request.max_tokens, 1);
  EXPECT_EQ(shrunk[0].request.n, 2);
}

TEST(Shrink, StopsAtItsLimit) {
  int trials = 0;
  const auto fails = [&trials](std::span<const SimCommand>) { return ++trials < 0; };
  Shrink(std::vector<SimCommand>(1000), fails, 3);
  EXPECT_EQ(trials, 3);
}

TEST(SimReplay, GivesTheSamePlansAsTheDrawnLife) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const SimScenario scenario = SimScenario::FromSeed(seed);
    SimOutcome drawn;
    ASSERT_TRUE(SchedulerSim(scenario, seed).Run(&drawn).ok());
    SimOutcome replayed;
    const absl::Status status = SchedulerSim(scenario, 0).Replay(drawn.commands, &replayed);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(drawn.plans == replayed.plans);
    EXPECT_FALSE(FailsInAChild(scenario, drawn.commands));
  }
}

TEST(SimReplay, ABrokenRuleFailsInAChild) {
  const SimScenario scenario = SimScenario::FromSeed(0);
  SimCommand add{.kind = SimCommand::Kind::kAdd};
  add.request = {.id = 1, .prompt = {1}, .max_tokens = 1};
  EXPECT_FALSE(FailsInAChild(scenario, std::vector<SimCommand>{add}));
  EXPECT_TRUE(FailsInAChild(scenario, std::vector<SimCommand>{add, add}));  // the id is in use
}

}  // namespace
}  // namespace octavo
