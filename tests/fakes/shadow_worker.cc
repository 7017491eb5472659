#include "tests/fakes/shadow_worker.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/executor.h"
#include "common/status_macros.h"
#include "tests/fakes/fake_model.h"

namespace octavo {
namespace {

template <typename... Parts>
absl::Status Broken(const Parts&... parts) {
  return absl::FailedPreconditionError(absl::StrCat(parts...));
}

bool Names(const std::vector<BlockId>& table, BlockId block) {
  return std::find(table.begin(), table.end(), block) != table.end();
}

}  // namespace

ShadowWorker::ShadowWorker(const ShadowWorkerConfig& config)
    : config_(config),
      cache_(config.num_blocks, config.block_size, config.group_windows, config.num_swap_blocks) {}

void ShadowWorker::Reset(Epoch epoch) {
  epoch_ = epoch;
  next_step_ = 1;
  mirror_.clear();
  computed_.clear();
  submitted_.clear();
  written_.clear();
  cache_.Wipe();
}

int64_t ShadowWorker::mirrored_blocks() const {
  int64_t blocks = 0;
  for (const auto& [id, sequence] : mirror_) {
    for (const BlockId block : sequence.table) blocks += block != kPaddingBlock ? 1 : 0;
  }
  return blocks;
}

int64_t ShadowWorker::held_slots() const {
  std::set<BlockId> blocks;
  for (const auto& [id, sequence] : mirror_) {
    blocks.insert(sequence.table.begin(), sequence.table.end());
  }
  blocks.erase(kPaddingBlock);
  return static_cast<int64_t>(blocks.size()) * config_.block_size;
}

int64_t ShadowWorker::filled_slots() const {
  std::set<std::pair<BlockId, int32_t>> slots;
  for (const auto& [id, sequence] : mirror_) {
    for (size_t entry = 0; entry < sequence.table.size(); ++entry) {
      const int32_t first =
          static_cast<int32_t>(entry / config_.group_windows.size()) * config_.block_size;
      if (sequence.table[entry] == kPaddingBlock) continue;
      for (int32_t i = 0; i < config_.block_size && first + i < sequence.end; ++i) {
        slots.insert({sequence.table[entry], i});
      }
    }
  }
  return static_cast<int64_t>(slots.size());
}

absl::Status ShadowWorker::Submit(const StepPlan& plan) {
  if (submitted_.size() >= kMaxStepsInFlight) return Broken(submitted_.size(), " steps in flight");
  if (plan.epoch != epoch_) return Broken("epoch ", plan.epoch, "; expected ", epoch_);
  if (plan.step != next_step_) return Broken("step ", plan.step, "; expected ", next_step_);
  OCTAVO_RETURN_IF_ERROR(CheckTotals(plan));
  for (const SequenceId dropped : plan.dropped) {
    if (mirror_.erase(dropped) == 0) return Broken("drop of unknown sequence ", dropped);
  }
  OCTAVO_RETURN_IF_ERROR(CheckCopies(plan));
  OCTAVO_RETURN_IF_ERROR(CheckCopyTargets(plan));
  OCTAVO_RETURN_IF_ERROR(CheckSwaps(plan));
  Submitted submitted{plan, {}};
  for (const SeqSlice& slice : plan.slices) {
    OCTAVO_RETURN_IF_ERROR(ApplySlice(slice, plan.copies));
    submitted.tables.push_back(mirror_[slice.sequence].table);
  }
  for (const SeqSlice& slice : plan.slices) {
    OCTAVO_RETURN_IF_ERROR(CheckWrites(slice));
    OCTAVO_RETURN_IF_ERROR(ApplyForks(slice));
  }
  OCTAVO_RETURN_IF_ERROR(CheckSwapSources(plan));
  for (const BlockSwap& swap : plan.swap_ins) {
    OCTAVO_RETURN_IF_ERROR(cache_.SwapIn(swap));
    ++swapped_in_blocks_;
  }
  submitted_.push_back(std::move(submitted));
  ++next_step_;
  return absl::OkStatus();
}

absl::Status ShadowWorker::CheckTotals(const StepPlan& plan) const {
  if (plan.slices.empty() && plan.swap_outs.empty()) return Broken("plan without slices");
  if (plan.slices.size() > static_cast<size_t>(config_.max_num_seqs)) {
    return Broken(plan.slices.size(), " slices; max_num_seqs is ", config_.max_num_seqs);
  }
  int64_t tokens = 0;
  int64_t samples = 0;
  std::set<SequenceId> seen;
  for (const SeqSlice& slice : plan.slices) {
    if (slice.num_tokens < 1) return Broken("slice of ", slice.num_tokens, " tokens");
    if (!seen.insert(slice.sequence).second) return Broken("two slices of ", slice.sequence);
    tokens += slice.num_tokens;
    samples += slice.sample ? 1 + static_cast<int64_t>(slice.forks.size()) : 0;
    for (const Fork& fork : slice.forks) {
      if (!seen.insert(fork.child).second) return Broken("child ", fork.child, " has a slice");
    }
  }
  if (samples > config_.max_num_seqs) {
    return Broken(samples, " samples; max_num_seqs is ", config_.max_num_seqs);
  }
  if (tokens > config_.max_num_batched_tokens) {
    return Broken(tokens, " tokens; max_num_batched_tokens is ", config_.max_num_batched_tokens);
  }
  return absl::OkStatus();
}

absl::Status ShadowWorker::CheckCopies(const StepPlan& plan) const {
  std::set<BlockId> sources;
  std::set<BlockId> targets;
  for (const BlockCopy& copy : plan.copies) {
    sources.insert(copy.source);
    if (!targets.insert(copy.target).second) return Broken("two copies into ", copy.target);
  }
  for (const BlockId source : sources) {
    if (targets.contains(source)) return Broken("block ", source, " is source and target");
  }
  return absl::OkStatus();
}

absl::Status ShadowWorker::CheckCopyTargets(const StepPlan& plan) const {
  for (const BlockCopy& copy : plan.copies) {
    // A beam that has not started yet may hold the source alone: no plan has named its table. That
    // the right tokens were copied shows when the target is read.
    if (copy.source <= kPaddingBlock || copy.source > config_.num_blocks) {
      return Broken("copy out of block ", copy.source);
    }
    OCTAVO_RETURN_IF_ERROR(CheckNewBlock(copy.target));
  }
  return absl::OkStatus();
}

absl::Status ShadowWorker::CheckSwaps(const StepPlan& plan) const {
  std::set<BlockId> devices;
  std::set<BlockId> hosts;
  const auto names_host = [](const std::vector<BlockSwap>& swaps, BlockId host) {
    return std::any_of(swaps.begin(), swaps.end(),
                       [host](const BlockSwap& swap) { return swap.host == host; });
  };
  for (const std::vector<BlockSwap>* swaps : {&plan.swap_outs, &plan.swap_ins}) {
    for (const BlockSwap& swap : *swaps) {
      if (!devices.insert(swap.device).second) return Broken("two swaps of ", swap.device);
      if (!hosts.insert(swap.host).second) return Broken("two swaps of host block ", swap.host);
      for (const Submitted& submitted : submitted_) {
        if (names_host(submitted.plan.swap_outs, swap.host) ||
            names_host(submitted.plan.swap_ins, swap.host)) {
          return Broken("host block ", swap.host, " is used while uncommitted step ",
                        submitted.plan.step, " names it (swap.1)");
        }
      }
    }
  }
  for (const BlockCopy& copy : plan.copies) {
    if (devices.contains(copy.source) || devices.contains(copy.target)) {
      return Broken("copy of swapped block ", copy.source, " or ", copy.target);
    }
  }
  for (const BlockSwap& swap : plan.swap_ins) OCTAVO_RETURN_IF_ERROR(CheckNewBlock(swap.device));
  return absl::OkStatus();
}

absl::Status ShadowWorker::CheckSwapSources(const StepPlan& plan) const {
  for (const BlockSwap& swap : plan.swap_outs) {
    if (Holders(swap.device) > 0) {
      return Broken("block ", swap.device, " is swapped out but in a table (swap.1)");
    }
  }
  return absl::OkStatus();
}

absl::Status ShadowWorker::ApplyForks(const SeqSlice& slice) {
  if (!slice.forks.empty() && !slice.sample) return Broken(slice.sequence, " forks unsampled");
  for (const Fork& fork : slice.forks) {
    if (mirror_.contains(fork.child)) return Broken("child ", fork.child, " is known");
    mirror_[fork.child] = mirror_[slice.sequence];
  }
  return absl::OkStatus();
}

absl::Status ShadowWorker::CheckWrites(const SeqSlice& slice) const {
  const std::vector<BlockId>& table = mirror_.at(slice.sequence).table;
  const int32_t last = slice.context_length + slice.num_tokens - 1;
  const int32_t groups = cache_.num_groups();
  for (int32_t i = slice.context_length / config_.block_size * groups;
       i < (last / config_.block_size + 1) * groups; ++i) {
    const BlockId block = table[static_cast<size_t>(i)];
    if (Holders(block) > 1) {
      return Broken("sequence ", slice.sequence, " writes to block ", block,
                    ", which others hold (kv.2)");
    }
  }
  return absl::OkStatus();
}

int ShadowWorker::Holders(BlockId block) const {
  int holders = 0;
  for (const auto& [id, sequence] : mirror_) holders += Names(sequence.table, block) ? 1 : 0;
  return holders;
}

absl::Status ShadowWorker::CheckRun(const SeqSlice& slice) const {
  if (!slice.start.has_value() && !slice.new_blocks.empty()) {
    return Broken("the run of sequence ", slice.sequence, " grows");
  }
  for (size_t i = 1; i < slice.new_blocks.size(); ++i) {
    if (slice.new_blocks[i] != slice.new_blocks[i - 1] + 1) {
      return Broken("sequence ", slice.sequence, " has block ", slice.new_blocks[i], " after ",
                    slice.new_blocks[i - 1]);
    }
  }
  return absl::OkStatus();
}

absl::Status ShadowWorker::ApplySlice(const SeqSlice& slice, const std::vector<BlockCopy>& copies) {
  const SequenceId id = slice.sequence;
  const bool known = mirror_.contains(id);
  if (slice.start.has_value() && known)
    return Broken("sequence ", id, " starts but was not dropped");
  if (!slice.start.has_value() && !known) return Broken("sequence ", id, " is unknown");
  if (config_.contiguous) OCTAVO_RETURN_IF_ERROR(CheckRun(slice));
  Mirrored& sequence = mirror_[id];
  if (slice.start.has_value()) sequence.end = slice.context_length;
  if (slice.context_length != sequence.end) {
    return Broken("sequence ", id, " context ", slice.context_length, "; its end is ",
                  sequence.end);
  }
  OCTAVO_RETURN_IF_ERROR(ApplyBlocks(slice, copies, &sequence.table));
  const int64_t end = int64_t{slice.context_length} + slice.num_tokens;
  if (end >= config_.max_model_len) {
    return Broken("sequence ", id, " ends at ", end, "; max_model_len is ", config_.max_model_len);
  }
  if (slice.feed_sampled) {
    if (!sequence.sampled || slice.num_tokens != 1 || !slice.tokens.empty()) {
      return Broken("sequence ", id, " feeds a token that it did not sample");
    }
  } else if (slice.tokens.size() != static_cast<size_t>(slice.num_tokens)) {
    return Broken("sequence ", id, " has ", slice.tokens.size(), " of ", slice.num_tokens,
                  " tokens");
  }
  for (const TokenId token : slice.tokens) {
    if (token < 0 || token >= config_.vocab_size) return Broken("token ", token);
  }
  if (slice.score.has_value()) OCTAVO_RETURN_IF_ERROR(CheckScore(slice));
  sequence.end = static_cast<int32_t>(end);
  sequence.sampled = slice.sample;
  return absl::OkStatus();
}

absl::Status ShadowWorker::ApplyBlocks(const SeqSlice& slice, const std::vector<BlockCopy>& copies,
                                       std::vector<BlockId>* table) const {
  const SequenceId id = slice.sequence;
  const size_t groups = config_.group_windows.size();
  for (const BlockReplacement& replaced : slice.replaced) {
    if (replaced.index < 0 || replaced.index >= static_cast<int32_t>(table->size())) {
      return Broken("sequence ", id, " replaces entry ", replaced.index);
    }
    BlockId& entry = (*table)[static_cast<size_t>(replaced.index)];
    if (entry == kPaddingBlock) {  // of a windowed group, lent late
      OCTAVO_RETURN_IF_ERROR(CheckNewBlock(replaced.block));
    } else if (std::find(copies.begin(), copies.end(), BlockCopy{entry, replaced.block}) ==
               copies.end()) {
      return Broken("block ", replaced.block, " replaces one but is no copy");
    }
    entry = replaced.block;
  }
  for (const BlockId block : slice.new_blocks) {
    // One that begins before the context's end has content already: it is read, and CheckWrites
    // sees to it that nobody else has a partly filled one.
    const int64_t first = static_cast<int64_t>(table->size() / groups) * config_.block_size;
    const bool windowed = config_.group_windows[table->size() % groups] > 0;
    if (first >= slice.context_length && !(windowed && block == kPaddingBlock)) {
      OCTAVO_RETURN_IF_ERROR(CheckNewBlock(block));
    }
    table->push_back(block);
  }
  const int64_t end = int64_t{slice.context_length} + slice.num_tokens;
  if (table->size() % groups != 0 ||
      end > static_cast<int64_t>(table->size() / groups) * config_.block_size) {
    return Broken("sequence ", id, " ends at ", end, " in ", table->size(), " blocks");
  }
  for (size_t i = 0; i < table->size(); ++i) {
    const int64_t row = static_cast<int64_t>(i / groups);
    if ((*table)[i] == kPaddingBlock && row >= FirstRow(slice.context_length, i) &&
        row * config_.block_size < end) {
      return Broken("sequence ", id, " has no block in row ", row, " of group ", i % groups);
    }
  }
  return absl::OkStatus();
}

absl::Status ShadowWorker::CheckScore(const SeqSlice& slice) const {
  const ScoreRows& score = *slice.score;
  const auto rows = static_cast<int32_t>(score.targets.size());
  if (slice.feed_sampled || score.first_row < 0 || rows < 1 ||
      score.first_row + rows > slice.num_tokens) {
    return Broken("sequence ", slice.sequence, " scores ", rows, " rows from ", score.first_row,
                  " of ", slice.num_tokens);
  }
  // What follows a row is the next row's token, where there is one.
  for (int32_t i = 0; i < rows; ++i) {
    const int32_t next = score.first_row + i + 1;
    if (next < slice.num_tokens && score.targets[i] != slice.tokens[next]) {
      return Broken("sequence ", slice.sequence, " scores token ", score.targets[i],
                    " where token ", slice.tokens[next], " follows");
    }
  }
  return absl::OkStatus();
}

absl::Status ShadowWorker::CheckNewBlock(BlockId block) const {
  if (block <= kPaddingBlock || block > config_.num_blocks) return Broken("block ", block);
  if (Holders(block) > 0) return Broken("block ", block, " is held by another table (kv.2)");
  for (const Submitted& submitted : submitted_) {
    for (size_t i = 0; i < submitted.tables.size(); ++i) {
      const std::vector<BlockId>& table = submitted.tables[i];
      for (size_t entry = 0; entry < table.size(); ++entry) {
        if (table[entry] != block) continue;
        const int64_t row = static_cast<int64_t>(entry / config_.group_windows.size());
        if (row < FirstRow(submitted.plan.slices[i].context_length, entry)) continue;
        return Broken("block ", block, " is lent while uncommitted step ", submitted.plan.step,
                      " names it for sequence ", submitted.plan.slices[i].sequence);
      }
    }
    for (const std::vector<BlockSwap>* swaps :
         {&submitted.plan.swap_outs, &submitted.plan.swap_ins}) {
      for (const BlockSwap& swap : *swaps) {
        if (swap.device == block) {
          return Broken("block ", block, " is lent while uncommitted step ", submitted.plan.step,
                        " swaps it (swap.1)");
        }
      }
    }
    for (const BlockCopy& copy : submitted.plan.copies) {
      if (copy.source == block || copy.target == block) {
        return Broken("block ", block, " is lent while uncommitted step ", submitted.plan.step,
                      " copies it");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<StepResult> ShadowWorker::Run() {
  OCTAVO_CHECK(!submitted_.empty(), "nothing was submitted");
  const Submitted submitted = std::move(submitted_.front());
  submitted_.pop_front();
  const StepPlan& plan = submitted.plan;
  for (const SequenceId dropped : plan.dropped) computed_.erase(dropped);
  for (const BlockCopy& copy : plan.copies) {
    OCTAVO_RETURN_IF_ERROR(cache_.Copy(copy.source, copy.target));
    ++copied_blocks_;
  }
  StepResult result;
  result.epoch = plan.epoch;
  result.step = plan.step;
  for (size_t i = 0; i < plan.slices.size(); ++i) {
    const SeqSlice& slice = plan.slices[i];
    OCTAVO_RETURN_IF_ERROR(RunSlice(slice, submitted.tables[i], &result));
    Slide(slice.sequence, slice.context_length + slice.num_tokens);
    for (const Fork& fork : slice.forks) Slide(fork.child, slice.context_length + slice.num_tokens);
  }
  for (const BlockSwap& swap : plan.swap_outs) {
    OCTAVO_RETURN_IF_ERROR(cache_.SwapOut(swap));
    ++swapped_out_blocks_;
  }
  return result;
}

void ShadowWorker::Slide(SequenceId sequence, int32_t end) {
  const auto found = mirror_.find(sequence);
  if (found == mirror_.end()) return;
  std::vector<BlockId>& table = found->second.table;
  for (size_t i = 0; i < table.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i / config_.group_windows.size());
    if (row < FirstRow(end, i)) table[i] = kPaddingBlock;
  }
}

std::vector<TokenId> ShadowWorker::PrefixOf(const ShadowSlot& slot) const {
  std::vector<TokenId> tokens;
  for (ChainHash chain = slot.chain; chain != kEmptyChain;) {
    const auto found = written_.find(chain);
    if (found == written_.end()) return {};
    tokens.push_back(found->second.second);
    chain = found->second.first;
  }
  std::reverse(tokens.begin(), tokens.end());
  return tokens;
}

absl::Status ShadowWorker::FindPrefix(const SeqSlice& slice, const std::vector<BlockId>& table,
                                      Computed* sequence) const {
  if (slice.context_length == 0) return absl::OkStatus();
  // Of the first group, which sees most, the last slot says which prefix it is.
  ShadowSlot last;
  OCTAVO_RETURN_IF_ERROR(cache_.Read(table, slice.context_length - 1, &last));
  sequence->tokens = PrefixOf(last);
  if (static_cast<int32_t>(sequence->tokens.size()) != slice.context_length) {
    return absl::DataLossError(absl::StrCat("sequence ", slice.sequence, " begins with ",
                                            slice.context_length, " tokens; its last block does ",
                                            "not hold position ", slice.context_length - 1));
  }
  OCTAVO_RETURN_IF_ERROR(cache_.CheckPrefix(table, sequence->tokens, slice.context_length));
  for (int32_t group = 0; group < cache_.num_groups(); ++group) {
    const int64_t first = cache_.FirstRow(slice.context_length, group) * config_.block_size;
    for (int32_t i = static_cast<int32_t>(first); i < slice.context_length; ++i) {
      ShadowSlot slot;
      OCTAVO_RETURN_IF_ERROR(cache_.Read(table, i, &slot, group));
      if (read_rule_(slice.sequence, slot.sequence)) continue;
      return absl::DataLossError(absl::StrCat("sequence ", slice.sequence, " reads position ", i,
                                              " of sequence ", slot.sequence,
                                              ", whose blocks it may not find (kv.6)"));
    }
  }
  return absl::OkStatus();
}

absl::Status ShadowWorker::RunSlice(const SeqSlice& slice, const std::vector<BlockId>& table,
                                    StepResult* result) {
  Computed& sequence = computed_[slice.sequence];
  if (slice.start.has_value()) {
    sequence = {.start = *slice.start, .tokens = {}, .sampled = {}};
    OCTAVO_RETURN_IF_ERROR(FindPrefix(slice, table, &sequence));
  }
  ChainHash chain = kEmptyChain;
  for (const TokenId token : sequence.tokens) chain = Extend(chain, token);
  SliceScores scores{slice.sequence, {}};
  for (int32_t i = 0; i < slice.num_tokens; ++i) {
    const TokenId token = slice.feed_sampled ? *sequence.sampled : slice.tokens[i];
    const ChainHash before = std::exchange(chain, Extend(chain, token));
    written_[chain] = {before, token};
    OCTAVO_RETURN_IF_ERROR(cache_.Write(table, {.sequence = slice.sequence,
                                                .position = slice.context_length + i,
                                                .token = token,
                                                .chain = chain}));
    sequence.tokens.push_back(token);
    ++computed_tokens_;
    const int32_t target = slice.score.has_value() ? i - slice.score->first_row : -1;
    if (target >= 0 && target < static_cast<int32_t>(slice.score->targets.size())) {
      scores.tokens.push_back(ScoreToken(chain, slice.score->targets[target], slice.score->num_top,
                                         config_.vocab_size));
    }
  }
  OCTAVO_RETURN_IF_ERROR(cache_.CheckPrefix(table, sequence.tokens, slice.context_length));
  if (slice.score.has_value()) result->scores.push_back(std::move(scores));
  sequence.sampled.reset();
  if (!slice.sample) return absl::OkStatus();
  const int32_t position = slice.context_length + slice.num_tokens;
  const auto sample = [&](SequenceId id, Computed* of) {
    of->sampled = SampleToken(chain, of->start.sampling.seed, of->start.choice_index, position,
                              config_.vocab_size);
    SampledToken& answer = result->samples.emplace_back();
    const SamplingParams& sampling = of->start.sampling;
    if (sampling.num_logprobs > 0) {
      answer.top = TopLogprobs(chain, config_.vocab_size, sampling.num_logprobs);
      if (sampling.greedy()) of->sampled = answer.top[0].token;
    }
    answer.sequence = id;
    answer.token = *of->sampled;
  };
  sample(slice.sequence, &sequence);
  const Computed parent = sequence;
  for (const Fork& fork : slice.forks) {
    Computed& child = computed_[fork.child] = parent;
    child.start.choice_index = fork.choice_index;
    sample(fork.child, &child);
  }
  return absl::OkStatus();
}

}  // namespace octavo
