#include "tools/simulate/cost_model.h"

#include <algorithm>

namespace octavo::simulate {

StepWork WorkOf(const StepPlan& plan) {
  StepWork work;
  for (const SeqSlice& slice : plan.slices) {
    const double count = slice.num_tokens;
    work.tokens += slice.num_tokens;
    work.samples += slice.sample ? 1 : 0;
    work.kv_tokens += slice.context_length + slice.num_tokens;
    work.attended_pairs += count * slice.context_length + count * (count + 1) / 2;
  }
  work.copied_blocks = static_cast<int64_t>(plan.copies.size());
  work.swapped_out = static_cast<int64_t>(plan.swap_outs.size());
  work.swapped_in = static_cast<int64_t>(plan.swap_ins.size());
  return work;
}

CostModel::CostModel(const DeviceSpec& device, const ModelSpec& model,
                     const CacheGeometry& geometry, int32_t cards)
    : device_(device),
      cards_(cards),
      weight_bytes_(model.streamed_bytes() / cards),
      kv_token_bytes_(static_cast<double>(geometry.bytes_per_token())),
      block_bytes_(static_cast<double>(geometry.bytes_per_block())),
      token_flops_(2.0 * static_cast<double>(model.layer_weights()) / cards),
      sample_flops_(2.0 * static_cast<double>(model.head_weights()) / cards),
      pair_flops_(4.0 * model.layers * model.heads * model.head_dim / cards),
      all_reduces_(cards > 1 ? 2.0 * model.layers : 0),
      reduced_token_bytes_(2.0 * model.hidden * 2 * (cards - 1) / cards) {}

StepCost CostModel::Cost(const StepWork& work) const {
  const double bytes = weight_bytes_ + static_cast<double>(work.kv_tokens) * kv_token_bytes_ +
                       2 * static_cast<double>(work.copied_blocks) * block_bytes_;
  const double matmul_flops = static_cast<double>(work.tokens) * token_flops_ +
                              static_cast<double>(work.samples) * sample_flops_;
  const double memory = bytes / (device_.memory_gb_per_s * 1e9);
  const double arithmetic = matmul_flops / (device_.matmul_tflops * 1e12) +
                            work.attended_pairs * pair_flops_ / (device_.attention_tflops * 1e12);
  StepCost cost;
  // A plan of copies alone reads no weights.
  if (work.tokens > 0) {
    cost.compute_seconds = std::max(memory, arithmetic) + device_.step_overhead_us * 1e-6;
  }
  if (cards_ > 1 && work.tokens > 0) {
    cost.compute_seconds +=
        all_reduces_ *
        (device_.all_reduce_us * 1e-6 + static_cast<double>(work.tokens) * reduced_token_bytes_ /
                                            (device_.all_reduce_gb_per_s * 1e9));
  }
  const double out = static_cast<double>(work.swapped_out) * block_bytes_;
  const double in = static_cast<double>(work.swapped_in) * block_bytes_;
  const double one_way = device_.link_gb_per_s * 1e9;
  const double both = (out + in) / (device_.link_both_gb_per_s * 1e9);
  // Both directions run at once; when they do they share what the link carries in both.
  cost.swap_out_seconds = out > 0 ? std::max(out / one_way, in > 0 ? both : 0) : 0;
  cost.swap_in_seconds = in > 0 ? std::max(in / one_way, out > 0 ? both : 0) : 0;
  return cost;
}

}  // namespace octavo::simulate
