// A group of ranks: who is let in, and how its ranks are introduced to each other.
#include "scheduler/engine/worker_group.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/engine/engine_fixture.h"

namespace octavo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WorkerGroupTest : public EngineTest {
 protected:
  WorkerGroupTest() { AddSecondRank(); }

  // Why the engine gave up.
  std::string Refusal() {
    StartEngine();
    EXPECT_TRUE(Eventually([this] { return engine_->snapshot().state == EngineState::kFailed; }));
    return std::string(engine_->snapshot().failure.message());
  }
};

TEST_F(WorkerGroupTest, EveryRankLearnsItsPlaceAndEveryAddress) {
  StartEngine();
  AwaitReady();
  for (int32_t rank = 0; rank < 2; ++rank) {
    const WorkerConfig config = workers_[static_cast<size_t>(rank)]->config();
    EXPECT_EQ(config.rank, rank);
    EXPECT_EQ(config.world_size, 2);
    EXPECT_THAT(config.communicator_addresses, ElementsAre("rank 0", "rank 1"));
  }
}

TEST_F(WorkerGroupTest, RanksListedInTheWrongOrderAreNamed) {
  std::swap(workers_[0]->description.rank, workers_[1]->description.rank);
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("worker fake-0 is rank 1 of 2"),
                               HasSubstr("takes it for rank 0 of 2")));
}

TEST_F(WorkerGroupTest, AWorkerOfAnotherGroupSizeIsNamed) {
  workers_[1]->description.world_size = 3;
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("worker fake-1 is rank 1 of 3"),
                               HasSubstr("takes it for rank 1 of 2")));
}

TEST_F(WorkerGroupTest, AnotherModelIsNamed) {
  workers_[1]->description.model_digest = "other";
  EXPECT_THAT(Refusal(), HasSubstr("worker fake-1 has model"));
}

TEST_F(WorkerGroupTest, AMismatchOfGeometryIsNamed) {
  workers_[1]->description.kv_shape.head_dim = 16;
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("worker fake-1 holds"), HasSubstr("16 head_dim")));
}

TEST_F(WorkerGroupTest, KvHeadsThatDoNotAddUpAreListedByWorker) {
  workers_[1]->description.kv_shape.num_kv_heads = 2;
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("1 (fake-0) + 2 (fake-1) kv_heads"),
                               HasSubstr("2 ranks of a model of 2 hold 2")));
}

TEST_F(WorkerGroupTest, AnOverrideThatNoMemoryHoldsNamesTheWorkerAndTheLimit) {
  options_.group.num_blocks_override = 900000000;
  workers_[1]->description.memory_total_bytes = int64_t{1} << 30;
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("worker fake-1: --num-gpu-blocks-override is 900000000"),
                               HasSubstr("1.0 GiB")));
}

TEST_F(WorkerGroupTest, AReplicatedKvHeadIsCountedForEveryRank) {
  options_.group.model.kv_shape.num_kv_heads = 1;
  StartEngine();
  AwaitReady();
  const Request request = MakeRequest(20, 10);
  const auto reader = Submit(request);
  EXPECT_TRUE(reader->AwaitEnd().ok());
  EXPECT_EQ(reader->tokens(), Expected(request));
}

}  // namespace
}  // namespace octavo
