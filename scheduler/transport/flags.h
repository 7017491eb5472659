// The flags of a scheduler: of octavo-scheduler, and of the scheduler inside `octavo serve`.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_FLAGS_H_
#define OCTAVO_SCHEDULER_TRANSPORT_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "common/checkpoint/model_config.h"
#include "common/program/program.h"
#include "scheduler/engine/engine_loop.h"
#include "scheduler/transport/served_model.h"

namespace octavo {

struct SchedulerFlags {
  std::string model_path;
  std::string load_format = "auto";
  std::vector<std::string> workers;  // "host:port", rank 0 first
  std::string host = "127.0.0.1";
  int port = 50051;         // 0: a free one
  int metrics_port = 9400;  // 0: a free one
  std::string port_file;
  bool health_check = false;

  std::string served_model_name;  // empty: the model's own
  int32_t block_size = 16;
  std::string kv_cache_dtype = "auto";
  int32_t max_model_len = 0;  // 0: the model's
  int32_t max_num_seqs = 256;
  int32_t max_num_batched_tokens = 2048;
  int32_t max_prefill_chunk = 0;
  int32_t max_queued_requests = 4096;
  int64_t max_queued_tokens = 0;
  double kv_watermark = SchedulerConfig().kv_watermark;
  std::string kv_allocation = "paged";
  int64_t num_gpu_blocks_override = 0;
  bool enable_prefix_caching = true;
  std::string prefix_cache_key_file;  // empty: OCTAVO_PREFIX_CACHE_KEY, or a random key
  std::string preemption_mode = "auto";
  std::string preemption_granularity = "block";
  double preemption_resume_share = SchedulerConfig().preemption_resume_share;
  int32_t max_preemptions = SchedulerConfig().max_preemptions;
  int32_t expected_mean_tokens = 512;
  double step_timeout_seconds = 300;
  double drain_timeout_seconds = 30;
  LogFlags log;
};

// `embedded` leaves out the workers, which `octavo serve` has inside, and the program's own flags.
void AddSchedulerFlags(CLI::App& app, SchedulerFlags* flags, bool embedded);

// What of the flags is wrong with each other or with the model: INVALID_ARGUMENT naming flag, value
// and limit. Reads --prefix-cache-key-file. Fills the model's name and limits.
absl::StatusOr<EngineOptions> MakeEngineOptions(const SchedulerFlags& flags, ServedModel* model);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_FLAGS_H_
