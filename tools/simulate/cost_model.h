// How long a step takes: a roofline.
#ifndef OCTAVO_TOOLS_SIMULATE_COST_MODEL_H_
#define OCTAVO_TOOLS_SIMULATE_COST_MODEL_H_

#include <cstdint>

#include "common/cache_geometry.h"
#include "common/step.h"
#include "tools/simulate/device_spec.h"
#include "tools/simulate/model_spec.h"

namespace octavo::simulate {

// What a plan makes the device do.
struct StepWork {
  int64_t tokens = 0;         // computed
  int64_t samples = 0;        // positions whose logits are needed
  int64_t kv_tokens = 0;      // read or written, summed over the slices
  double attended_pairs = 0;  // query and key positions, summed over the slices
  int64_t copied_blocks = 0;  // inside the device
  int64_t swapped_out = 0;    // blocks
  int64_t swapped_in = 0;     // blocks
};
StepWork WorkOf(const StepPlan& plan);

struct StepCost {
  double compute_seconds = 0;
  double swap_out_seconds = 0;
  double swap_in_seconds = 0;
};

// One device, or `cards` of them that share every layer evenly (tensor parallel):
//
//   memory  = (weights + KV of every sequence's context and new tokens + copies) / bandwidth
//   arithmetic = 2 x weights x tokens / matmul peak + 4 x layers x heads x head_dim x pairs /
//                attention peak
//   compute = max(memory, arithmetic) + all-reduces + fixed overhead
//   copy    = bytes / one way; with copies both ways at once, all bytes / both ways if longer
//
// Every card does its share of the bytes and operations. An all-reduce after attention and after
// the feed-forward part of each layer costs its latency plus its bytes over the link between cards.
class CostModel {
 public:
  // `geometry` is that of one card. REQUIRES: cards divides model.kv_heads.
  CostModel(const DeviceSpec& device, const ModelSpec& model, const CacheGeometry& geometry,
            int32_t cards);

  StepCost Cost(const StepWork& work) const;

 private:
  const DeviceSpec device_;
  const int32_t cards_;
  // Of one card.
  const double weight_bytes_;
  const double kv_token_bytes_;
  const double block_bytes_;
  const double token_flops_;
  const double sample_flops_;
  const double pair_flops_;
  // Of the group.
  const double all_reduces_;  // in a step
  const double reduced_token_bytes_;
};

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_COST_MODEL_H_
