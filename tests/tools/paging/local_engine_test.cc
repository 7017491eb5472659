#include "tools/paging/local_engine.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "tests/fakes/fake_executor.h"

namespace octavo::paging {
namespace {

class LocalEngineTest : public testing::Test {
 protected:
  LocalEngineTest() {
    const WorkerDescription model = FakeDescription();
    options_.scheduler = {.block_size = 8,
                          .vocab_size = model.vocab_size,
                          .max_model_len = 64,
                          .max_num_seqs = 32,
                          .max_num_batched_tokens = 64};
    options_.group.model = {
        .digest = model.model_digest, .kv_shape = model.kv_shape, .vocab_size = model.vocab_size};
    options_.group.config = {
        .block_size = 8, .max_model_len = 64, .max_num_seqs = 32, .max_num_batched_tokens = 64};
    options_.group.num_blocks_override = 16;
    for (int32_t i = 0; i < 24; ++i) {
      Request& request = requests_.emplace_back();
      for (int32_t j = 0; j <= i; ++j) request.prompt.push_back((i + 7 * j) % 60);
      request.max_tokens = 1 + (i * 5) % 30;
      request.ignore_eos = true;
      request.sampling.seed = static_cast<uint64_t>(i);
    }
  }

  absl::StatusOr<BatchResult> RunWith(KvAllocation allocation) {
    EngineOptions options = options_;
    options.scheduler.kv_allocation = allocation;
    if (allocation != KvAllocation::kPaged) options.scheduler.prefix_cache = false;
    auto control = std::make_shared<FakeWorkerControl>();
    control->description = FakeDescription();
    const auto never = [] { return false; };
    auto engine = LocalEngine::Start(options, std::make_unique<FakeExecutor>(control),
                                     RunClock::kWall, never);
    if (!engine.ok()) return engine.status();
    return (*engine)->Run(requests_, never);
  }

  EngineOptions options_;
  std::vector<Request> requests_;
};

TEST_F(LocalEngineTest, EveryAllocationGivesTheSameTokens) {
  const absl::StatusOr<BatchResult> paged = RunWith(KvAllocation::kPaged);
  ASSERT_TRUE(paged.ok()) << paged.status();
  for (const KvAllocation allocation : AllKvAllocations()) {
    const absl::StatusOr<BatchResult> result = RunWith(allocation);
    ASSERT_TRUE(result.ok()) << result.status();
    for (size_t i = 0; i < requests_.size(); ++i) {
      EXPECT_EQ(result->tokens[i].size(), static_cast<size_t>(requests_[i].max_tokens));
      EXPECT_EQ(result->tokens[i], paged->tokens[i]) << Name(allocation);
    }
    EXPECT_GT(result->mean_running, 0);
    EXPECT_GT(result->slots_filled(), 0);
    EXPECT_LE(result->slots_filled(), 1);
  }
}

TEST_F(LocalEngineTest, ARequestThatIsRefusedIsTheError) {
  requests_[3].max_tokens = 1000;
  const absl::StatusOr<BatchResult> result = RunWith(KvAllocation::kContiguousMax);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace octavo::paging
