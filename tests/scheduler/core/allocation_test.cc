// A decode step in steady state allocates its plan and its events, and nothing else.
#include <cstdlib>
#include <new>

#include "gtest/gtest.h"
#include "tests/scheduler/core/scheduler_harness.h"

namespace {
int64_t allocations = 0;
}  // namespace

// Not inlined, or GCC takes the free() of one for a mismatch with the other.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace octavo {
namespace {

void ExpectSteady(const std::vector<int32_t>& group_windows) {
  constexpr int32_t kRunning = 64;
  SchedulerConfig config = SmallConfig();
  config.num_blocks = 16384;
  config.group_windows = group_windows;
  config.max_model_len = 512;
  config.max_num_seqs = kRunning;
  config.max_num_batched_tokens = 2048;
  Scheduler scheduler(config);
  for (RequestId id = 1; id <= kRunning; ++id) {
    ASSERT_TRUE(scheduler.Add(MakeRequest(id, 6, 400)).ok());
  }
  std::optional<StepPlan> last = scheduler.Schedule(absl::UnixEpoch());
  for (int step = 0; step < 300; ++step) {
    const StepResult result = Harness::Answer(*last);
    const int64_t before = allocations;
    std::optional<StepPlan> plan = scheduler.Schedule(absl::UnixEpoch());
    const std::vector<TokenEvent> events = scheduler.Commit(result);
    const int64_t made = allocations - before;
    ASSERT_EQ(events.size(), static_cast<size_t>(kRunning));
    int64_t tables = 0;
    for (const SeqSlice& slice : plan->slices) tables += slice.new_blocks.empty() ? 0 : 1;
    // The first two steps make the records that later ones use again.
    if (step >= 2) {
      ASSERT_EQ(made, 2 + tables) << "step " << step;
    }
    last = std::move(plan);
  }
}

TEST(Scheduler, ASteadyStepAllocatesItsPlanAndItsEventsOnly) { ExpectSteady({0}); }

TEST(SchedulerWindows, ASteadyStepAllocatesItsPlanAndItsEventsOnly) { ExpectSteady({0, 40, 40}); }

}  // namespace
}  // namespace octavo
