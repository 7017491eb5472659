// An engine and one worker in this process, as `octavo serve` has them, without the services.
#ifndef OCTAVO_TOOLS_PAGING_LOCAL_ENGINE_H_
#define OCTAVO_TOOLS_PAGING_LOCAL_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/executor.h"
#include "scheduler/engine/engine_loop.h"

namespace octavo::paging {

// kCpu: time that this process computed, of all threads together. With one compute thread it is
// what the run takes on an idle machine, whatever else this one does.
enum class RunClock { kWall, kCpu };

// Of one closed batch: requests submitted at once, until the last has ended.
struct BatchResult {
  double seconds = 0;  // by the clock asked for
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  // Means over (wall) time. Levels are those at step boundaries.
  double mean_running = 0;
  double mean_held_slots = 0;
  double mean_filled_slots = 0;
  uint64_t preemptions = 0;
  uint64_t computed_prompt_tokens = 0;  // recomputed ones again
  uint64_t prefix_hit_tokens = 0;
  uint64_t adjacency_waits = 0;              // steps
  std::vector<std::vector<TokenId>> tokens;  // of each request

  double tokens_per_s() const { return static_cast<double>(output_tokens) / seconds; }
  double slots_filled() const {
    return mean_held_slots > 0 ? mean_filled_slots / mean_held_slots : 0;
  }
  double hit_rate() const {
    return static_cast<double>(prefix_hit_tokens) / static_cast<double>(prompt_tokens);
  }
};

// True: stop what runs. Asked a few times a second.
using Interrupted = std::function<bool()>;

class LocalEngine {
 public:
  // Returns when the engine is ready.
  static absl::StatusOr<std::unique_ptr<LocalEngine>> Start(const EngineOptions& options,
                                                            std::unique_ptr<Executor> worker,
                                                            RunClock clock,
                                                            const Interrupted& interrupted);

  // CANCELLED when interrupted; otherwise the first error of a request.
  absl::StatusOr<BatchResult> Run(const std::vector<Request>& requests,
                                  const Interrupted& interrupted);

 private:
  LocalEngine(std::unique_ptr<EngineLoop> loop, RunClock clock)
      : loop_(std::move(loop)), clock_(clock) {}

  std::unique_ptr<EngineLoop> loop_;
  const RunClock clock_;
};

}  // namespace octavo::paging

#endif  // OCTAVO_TOOLS_PAGING_LOCAL_ENGINE_H_
