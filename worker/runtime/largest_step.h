// Runs the largest step that a configuration allows, to see what it takes (design chapter 6).
#ifndef OCTAVO_WORKER_RUNTIME_LARGEST_STEP_H_
#define OCTAVO_WORKER_RUNTIME_LARGEST_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/executor.h"
#include "common/step.h"
#include "worker/backend/backend.h"
#include "worker/model/model.h"

namespace octavo {

// Steps of an epoch of `config`: one with as many tokens and sequences as it and its blocks allow,
// of which all sequences sample, and as many as are recorded and replayed of those that only decode
// them, with a table for each of `num_groups` groups of layers. REQUIRES: a block for each.
std::vector<StepPlan> LargestSteps(const WorkerConfig& config, int32_t num_groups);

// Bytes of the device.
struct LargestStepUse {
  int64_t bytes = 0;        // at the peak, beyond what stays in use when the steps are over
  int64_t stay_bytes = 0;   // what stays of what was not in use before: of libraries
  int64_t graph_bytes = 0;  // of `bytes`
};

// Runs LargestSteps in a pool of config.num_blocks, which do not count. RESOURCE_EXHAUSTED naming
// what did not fit. REQUIRES: dedicated memory; a model that is whole; nothing is configured.
absl::StatusOr<LargestStepUse> MeasureLargestStep(Backend& backend, const Model& model,
                                                  const WorkerConfig& config);

}  // namespace octavo

#endif  // OCTAVO_WORKER_RUNTIME_LARGEST_STEP_H_
