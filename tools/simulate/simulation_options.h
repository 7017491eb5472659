// What is simulated: the flags of `octavo simulate`, and what follows from them.
#ifndef OCTAVO_TOOLS_SIMULATE_SIMULATION_OPTIONS_H_
#define OCTAVO_TOOLS_SIMULATE_SIMULATION_OPTIONS_H_

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "scheduler/core/scheduler_config.h"
#include "tools/simulate/device_spec.h"
#include "tools/simulate/model_spec.h"
#include "tools/simulate/trace.h"
#include "tools/simulate/workload.h"

namespace octavo::simulate {

struct SimulationOptions {
  std::string trace = "sharegpt-like";
  int64_t requests = 0;
  double arrival_scale = 1;
  double request_rate = 0;
  uint64_t seed = 1;
  int32_t choices = 1;

  std::string device_preset = "h200";
  std::string device_file;
  std::string model_preset = "llama-3-8b";
  std::string model_file;
  int32_t cards = 1;

  double memory_utilization = 0.90;
  int64_t num_blocks = 0;
  std::string kv_cache_dtype = "auto";
  std::string kv_allocation = "paged";
  std::string preemption_mode = "auto";
  std::string preemption_granularity = "block";
  int64_t swap_bytes = int64_t{16} << 30;  // host memory of each card
  int32_t max_model_len = 0;
  SchedulerConfig scheduler;  // the fields that have flags
};

// The flags that name a workload, and those of the system that serves it. The options keep what
// they have where a flag is absent.
void AddWorkloadFlags(CLI::App& app, SimulationOptions* options);
void AddSystemFlags(CLI::App& app, SimulationOptions* options);

// Where the blocks of a card come from.
struct PoolPlan {
  double card_bytes = 0;
  double weight_bytes = 0;      // of one card
  double activation_bytes = 0;  // of the largest step, and what the runtime reserves
  double pool_bytes = 0;        // left under the utilisation
  int64_t num_blocks = 0;
  bool given = false;  // by --num-blocks
};

struct SimulationSetup {
  DeviceSpec device;
  ModelSpec model;
  int32_t cards = 1;
  CacheGeometry geometry;  // of one card
  PoolPlan pool;
  SchedulerConfig scheduler;
  WorkloadOptions workload;
};

absl::StatusOr<Trace> LoadTrace(const SimulationOptions& options);
// INVALID_ARGUMENT with flag, value and limit, also when the weights leave no room for the cache.
absl::StatusOr<SimulationSetup> MakeSetup(const SimulationOptions& options, const Trace& trace);

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_SIMULATION_OPTIONS_H_
