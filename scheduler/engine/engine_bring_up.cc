// EngineLoop: connecting the workers, on a thread of its own, at first and whenever they were lost.
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "scheduler/engine/engine_loop.h"

namespace octavo {

void EngineLoop::StartBringUp(Epoch epoch) {
  bring_up_.join();
  bring_up_ = std::thread([this, epoch, stats = scheduler_->stats()] {
    BringUpAgain(epoch, stats.num_blocks, stats.num_swap_blocks);
  });
}

void EngineLoop::BringUpFirst() {
  const absl::Status failure = [this]() -> absl::Status {
    while (true) {
      OCTAVO_ASSIGN_OR_RETURN(const GroupCapacity capacity, group_.Connect());
      OCTAVO_ASSIGN_OR_RETURN(
          const CacheGeometry geometry,
          CacheGeometry::Create(capacity.kv_shape, options_.group.config.kv_dtype,
                                options_.scheduler.block_size));
      SchedulerConfig config = options_.scheduler;
      config.num_blocks = capacity.num_blocks;
      config.group_windows = WindowsOf(geometry.groups());
      config.num_swap_blocks = capacity.num_swap_blocks;
      config.block_bytes = geometry.bytes_per_block();
      if (absl::Status valid = Validate(config); !valid.ok())
        return absl::FailedPreconditionError(
            absl::StrCat(valid.message(), " (", capacity.reason, ")"));
      auto scheduler = std::make_unique<Scheduler>(config);
      const Epoch epoch = scheduler->epoch();
      const absl::Status configured =
          group_.Configure(epoch, config.num_blocks, config.num_swap_blocks);
      if (configured.ok()) {
        OCTAVO_LOG(kInfo, "KV cache blocks=", config.num_blocks, " from ", capacity.reason,
                   "; host blocks for swapping=", config.num_swap_blocks);
        mailbox_.Ready({epoch, std::move(scheduler), geometry});
        return absl::OkStatus();
      }
      if (!group_.PauseAfter(configured)) return configured;
    }
  }();
  if (!failure.ok()) mailbox_.Refused(failure);
}

void EngineLoop::BringUpAgain(Epoch epoch, int64_t num_blocks, int64_t num_swap_blocks) {
  while (true) {
    group_.StopStreams();
    if (!group_.Reconnect().ok()) return;
    const absl::Status configured = group_.Configure(epoch, num_blocks, num_swap_blocks);
    if (configured.ok()) break;
    OCTAVO_LOG(kWarning, "workers are back but do not serve: ", configured.ToString());
    if (!group_.Pause()) return;
  }
  mailbox_.Ready({.epoch = epoch, .scheduler = nullptr, .geometry = {}});
}

}  // namespace octavo
