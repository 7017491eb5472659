// Limits and policies of the core. Filled once from flags and from what the workers reported.
#ifndef OCTAVO_SCHEDULER_CORE_SCHEDULER_CONFIG_H_
#define OCTAVO_SCHEDULER_CORE_SCHEDULER_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/core/kv_allocation.h"

namespace octavo {

// kAuto: for each victim whichever costs less by the rates measured (cost_model.h).
enum class PreemptionMode { kRecompute, kSwap, kAuto };

// kBlock: of what a preempted request had computed, only blocks that were lent to others since are
// lost. kRequest: all but what the prefix index still finds.
enum class PreemptionGranularity { kBlock, kRequest };

struct SchedulerConfig {
  int32_t block_size = 16;  // tokens per block
  int64_t num_blocks = 0;   // lendable blocks (kv.1)
  // Of each group of layers, in tokens; 0: sees all. Those that see more come first (kv.7).
  std::vector<int32_t> group_windows = {0};
  int32_t vocab_size = 0;                 // token ids are in [0, vocab_size)
  int32_t max_model_len = 0;              // prompt plus generated tokens of one request
  int32_t max_num_seqs = 256;             // sequences in one step
  int32_t max_num_batched_tokens = 2048;  // tokens in one step
  int32_t max_prefill_chunk = 0;       // tokens of one sequence in one step; 0: no bound of its own
  int32_t max_queued_requests = 4096;  // waiting requests, beyond which Add refuses
  int64_t max_queued_tokens = 0;       // waiting prompt tokens; 0: no bound
  double kv_watermark = 0.02;    // share of blocks that admission keeps free for running sequences
  int32_t max_preemptions = 16;  // of one request, after which it is immune (life.3)
  // Other than kPaged: a baseline to measure against, without prefix cache and with n = 1 only.
  KvAllocation kv_allocation = KvAllocation::kPaged;

  // What becomes of a preempted request's blocks.
  PreemptionMode preemption_mode = PreemptionMode::kAuto;
  PreemptionGranularity preemption_granularity = PreemptionGranularity::kBlock;
  // Of the blocks that a preempted request may still need beyond its known tokens, the share that
  // must be free before it starts again.
  double preemption_resume_share = 0.25;
  int64_t num_swap_blocks = 0;  // host blocks of every worker; 0: nothing is swapped
  int64_t block_bytes = 0;      // of one block on one rank
  // What auto assumes until the results of steps say better, of one rank.
  double initial_prefill_tokens_per_second = 1000;
  double initial_swap_bytes_per_second = 4e9;  // each way

  // The prefix index. The core has no randomness: a key that nobody can guess comes from outside,
  // drawn once per process, or fixed where digests shall be the same in every run.
  bool prefix_cache = true;
  std::string prefix_cache_key;
  std::string model_revision;  // digest of the weights (kv.6)
  std::string kv_dtype;
  int32_t prefix_digest_bits = 128;  // fewer only in tests: collisions cost hits
};

// INVALID_ARGUMENT with the field, its value and the limit. In particular: too few blocks for one
// request of max_model_len names the longest length that fits.
absl::Status Validate(const SchedulerConfig& config);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_SCHEDULER_CONFIG_H_
