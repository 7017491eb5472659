// The whole contract between the scheduler and its workers: what one step computes (StepPlan) and
// what came out (StepResult). Plans are differences: a worker keeps a mirror of the block tables of
// the sequences it has seen and applies each plan to it.
//
// Inside a plan the order is: drops, swap-outs, block copies, swap-ins, compute (step.4). A table
// may begin with blocks that other tables hold too: found in the prefix index, or shared by the
// samples of one request. Nobody writes to those; the first write to a shared, partly filled one is
// preceded by its copy.
#ifndef OCTAVO_COMMON_STEP_H_
#define OCTAVO_COMMON_STEP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/sampling_params.h"

namespace octavo {

struct BlockCopy {
  BlockId source = kPaddingBlock;
  BlockId target = kPaddingBlock;
  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

// A whole block moves between the worker's device pool and its host pool (swap.1). Host blocks are
// numbered from 1 like device blocks.
struct BlockSwap {
  BlockId device = kPaddingBlock;
  BlockId host = kPaddingBlock;
  friend bool operator==(const BlockSwap&, const BlockSwap&) = default;
};

// Sent with a sequence's first slice, and again with the first slice after a preemption.
struct SequenceStart {
  SamplingParams sampling;
  uint32_t choice_index = 0;
  friend bool operator==(const SequenceStart&, const SequenceStart&) = default;
};

// One more sample of the same request, born when its prompt is computed: `child` begins with the
// table, the length and the sampling of the slice's own sequence, and with a token of its own,
// sampled from the same logits by its own random stream (det.2).
struct Fork {
  SequenceId child = 0;
  uint32_t choice_index = 0;
  friend bool operator==(const Fork&, const Fork&) = default;
};

// Entry `index` of the table becomes `block`, into which the plan copies what it was (kv.2), or
// which is empty when the entry was the padding block (kv.7).
struct BlockReplacement {
  int32_t index = 0;
  BlockId block = kPaddingBlock;
  friend bool operator==(const BlockReplacement&, const BlockReplacement&) = default;
};

// Log-probabilities wanted of tokens that are known already: of targets[i] after row first_row + i
// of the slice. A prompt is scored so, chunk by chunk.
struct ScoreRows {
  int32_t first_row = 0;         // first_row + targets.size() <= num_tokens
  std::vector<TokenId> targets;  // >= 1: the tokens that follow those rows
  int32_t num_top = 0;           // of the most likely tokens there too; at most kMaxTopLogprobs
  friend bool operator==(const ScoreRows&, const ScoreRows&) = default;
};

// A table has a row of blocks for every block_size positions, one for each group of layers (kv.7):
// entry row * groups + group. Where a group's window needs no block, or none yet, it is the padding
// block; what a window has left is never read again, whatever block the mirror still has there.
//
// One sequence's share of a step: positions [context_length, context_length + num_tokens). A slice
// that starts a table may have a context: its first blocks then hold those tokens already.
struct SeqSlice {
  SequenceId sequence = 0;
  std::optional<SequenceStart> start;  // present: the mirror begins this table anew
  int32_t context_length = 0;          // tokens whose K and V the blocks already hold
  int32_t num_tokens = 0;              // >= 1
  std::vector<TokenId> tokens;         // num_tokens of them; empty when feed_sampled
  bool feed_sampled = false;           // num_tokens == 1: feed what this sequence sampled last
  std::vector<BlockId> new_blocks;     // whole rows, appended to the table before computing
  bool sample = false;                 // sample the token after the slice's last position (step.3)
  std::vector<Fork> forks;             // only with `sample`; made after the blocks were appended
  std::vector<BlockReplacement> replaced;  // before new_blocks are appended
  std::optional<ScoreRows> score;          // not with feed_sampled
  friend bool operator==(const SeqSlice&, const SeqSlice&) = default;
};

struct StepPlan {
  Epoch epoch = 0;
  StepId step = 0;
  std::vector<SequenceId> dropped;  // tables the mirror forgets first: ended or preempted
  std::vector<BlockCopy> copies;    // a parallel set: no block is both source and target
  std::vector<SeqSlice> slices;     // at most one per sequence, none of a child born in it
  // Out of blocks that earlier steps wrote, complete before the step is answered; nobody writes to
  // a source before that, so they may run beside the compute. Without slices a plan has some.
  std::vector<BlockSwap> swap_outs;
  // Into blocks and out of host blocks that no unanswered step names, so they may run as soon as
  // the plan arrives. No block, on either side, is named by two swaps of a plan.
  std::vector<BlockSwap> swap_ins;
  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;  // natural log, of the unfiltered distribution at temperature 1
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct SampledToken {
  SequenceId sequence = 0;
  TokenId token = 0;
  float logprob = 0;              // meaningful when num_logprobs >= 0
  std::vector<TokenLogprob> top;  // num_logprobs of them, most likely first, lower id on ties
  friend bool operator==(const SampledToken&, const SampledToken&) = default;
};

struct ScoredToken {
  TokenId token = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top;  // num_top of them, most likely first, lower id on ties
  friend bool operator==(const ScoredToken&, const ScoredToken&) = default;
};

struct SliceScores {
  SequenceId sequence = 0;
  std::vector<ScoredToken> tokens;  // one for each target, in order
  friend bool operator==(const SliceScores&, const SliceScores&) = default;
};

struct StepResult {
  Epoch epoch = 0;
  StepId step = 0;
  std::vector<SampledToken> samples;  // of the slices with `sample`, in plan order; after a slice's
                                      // own one those of its forks, in their order
  std::vector<SliceScores> scores;    // of the slices with `score`, in plan order
  double compute_seconds = 0;         // wall time on the worker, for metrics and policies (det.3)
  double swap_out_seconds = 0;        // of copying the plan's swap-outs, wherever it overlapped
  double swap_in_seconds = 0;
};

}  // namespace octavo

#endif  // OCTAVO_COMMON_STEP_H_
