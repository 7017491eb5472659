#include "common/rpc/step_codec.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/decode_limits.h"
#include "common/rpc/score_codec.h"
#include "common/rpc/swap_codec.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

absl::StatusOr<int64_t> Count64(absl::string_view what, uint64_t value) {
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return absl::InvalidArgumentError(absl::StrCat(what, " is ", value, "; it overflows 63 bits"));
  return static_cast<int64_t>(value);
}

absl::StatusOr<double> Seconds(absl::string_view what, double value) {
  if (std::isfinite(value) && value >= 0) return value;
  return absl::InvalidArgumentError(absl::StrCat(what, " is ", value));
}

absl::StatusOr<SequenceStart> DecodeStart(const worker::v1::SequenceStart& message) {
  if (message.has_rules() || message.counts_size() > 0 || message.sampling().typical_p() != 0)
    return absl::InvalidArgumentError("rules, counts and typical_p are not known here");
  SequenceStart start;
  start.choice_index = message.choice_index();
  SamplingParams& sampling = start.sampling;
  sampling.temperature = message.sampling().temperature();
  OCTAVO_ASSIGN_OR_RETURN(sampling.top_k,
                          InRange("top_k", message.sampling().top_k(), 0, kInt32Max));
  sampling.top_p = message.sampling().top_p();
  sampling.min_p = message.sampling().min_p();
  sampling.seed = message.sampling().seed();
  sampling.num_logprobs = message.sampling().num_logprobs();
  OCTAVO_RETURN_IF_ERROR(Validate(sampling, kMaxStepLogprobs));
  return start;
}

absl::Status DecodeSharing(const worker::v1::SeqSlice& message, const StepLimits& limits,
                           SeqSlice* slice) {
  OCTAVO_RETURN_IF_ERROR(CountWithin("forks", message.forks_size(), limits.max_num_seqs));
  if (message.forks_size() > 0 && !slice->sample)
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", slice->sequence, " forks without sampling"));
  slice->forks.reserve(message.forks_size());
  for (const auto& fork : message.forks())
    slice->forks.push_back({fork.child(), fork.choice_index()});
  OCTAVO_RETURN_IF_ERROR(
      CountWithin("replaced blocks", message.replaced_size(), limits.num_blocks));
  slice->replaced.reserve(message.replaced_size());
  for (const auto& replaced : message.replaced()) {
    BlockReplacement& to = slice->replaced.emplace_back();
    OCTAVO_ASSIGN_OR_RETURN(
        to.index, InRange("replaced index", replaced.index(), 0, limits.max_model_len - 1));
    OCTAVO_ASSIGN_OR_RETURN(to.block, InRange("block id", replaced.block(), 1, limits.num_blocks));
  }
  return absl::OkStatus();
}

absl::StatusOr<SeqSlice> DecodeSlice(const worker::v1::SeqSlice& message,
                                     const StepLimits& limits) {
  SeqSlice slice;
  slice.sequence = message.sequence();
  if (message.masked())
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", slice.sequence, " waits for masks; they are not known here"));
  if (message.has_start()) {
    OCTAVO_ASSIGN_OR_RETURN(slice.start, DecodeStart(message.start()));
  }
  OCTAVO_ASSIGN_OR_RETURN(slice.num_tokens, InRange("num_tokens", message.num_tokens(), 1,
                                                    limits.max_num_batched_tokens));
  OCTAVO_ASSIGN_OR_RETURN(slice.context_length,
                          InRange("context_length", message.context_length(), 0,
                                  limits.max_model_len - slice.num_tokens));
  slice.feed_sampled = message.feed_sampled();
  slice.sample = message.sample();
  const int expected = slice.feed_sampled ? 0 : slice.num_tokens;
  if (message.tokens_size() != expected || (slice.feed_sampled && slice.num_tokens != 1))
    return absl::InvalidArgumentError(absl::StrCat(
        "sequence ", slice.sequence, " carries ", message.tokens_size(), " tokens for ",
        slice.num_tokens, " positions", slice.feed_sampled ? ", fed from its last sample" : ""));
  slice.tokens.reserve(message.tokens_size());
  for (const uint32_t token : message.tokens()) {
    OCTAVO_ASSIGN_OR_RETURN(const TokenId id, InRange("token id", token, 0, limits.vocab_size - 1));
    slice.tokens.push_back(id);
  }
  OCTAVO_RETURN_IF_ERROR(CountWithin("new blocks", message.new_blocks_size(), limits.num_blocks));
  slice.new_blocks.reserve(message.new_blocks_size());
  // The padding block stands for what a group with a window does not hold (kv.7); the table mirror
  // knows which groups those are.
  for (const uint32_t block : message.new_blocks()) {
    OCTAVO_ASSIGN_OR_RETURN(const BlockId id,
                            InRange("block id", block, kPaddingBlock, limits.num_blocks));
    slice.new_blocks.push_back(id);
  }
  OCTAVO_RETURN_IF_ERROR(DecodeSharing(message, limits, &slice));
  if (message.has_score()) {
    OCTAVO_ASSIGN_OR_RETURN(slice.score, DecodeScore(message.score(), slice, limits));
  }
  return slice;
}

}  // namespace

void EncodePlan(const StepPlan& plan, worker::v1::StepPlan* out) {
  out->Clear();
  out->set_epoch(plan.epoch);
  out->set_step(plan.step);
  out->mutable_dropped()->Add(plan.dropped.begin(), plan.dropped.end());
  for (const BlockCopy& copy : plan.copies) {
    auto* to = out->add_copies();
    to->set_source(static_cast<uint32_t>(copy.source));
    to->set_target(static_cast<uint32_t>(copy.target));
  }
  EncodeSwaps(plan, out);
  for (const SeqSlice& slice : plan.slices) {
    auto* to = out->add_slices();
    to->set_sequence(slice.sequence);
    if (slice.start.has_value()) {
      auto* sampling = to->mutable_start()->mutable_sampling();
      sampling->set_temperature(slice.start->sampling.temperature);
      sampling->set_top_k(static_cast<uint32_t>(slice.start->sampling.top_k));
      sampling->set_top_p(slice.start->sampling.top_p);
      sampling->set_min_p(slice.start->sampling.min_p);
      sampling->set_seed(slice.start->sampling.seed);
      sampling->set_num_logprobs(slice.start->sampling.num_logprobs);
      to->mutable_start()->set_choice_index(slice.start->choice_index);
    }
    to->set_context_length(static_cast<uint32_t>(slice.context_length));
    to->set_num_tokens(static_cast<uint32_t>(slice.num_tokens));
    to->mutable_tokens()->Add(slice.tokens.begin(), slice.tokens.end());
    to->set_feed_sampled(slice.feed_sampled);
    to->mutable_new_blocks()->Add(slice.new_blocks.begin(), slice.new_blocks.end());
    to->set_sample(slice.sample);
    for (const Fork& fork : slice.forks) {
      auto* child = to->add_forks();
      child->set_child(fork.child);
      child->set_choice_index(fork.choice_index);
    }
    for (const BlockReplacement& replaced : slice.replaced) {
      auto* entry = to->add_replaced();
      entry->set_index(static_cast<uint32_t>(replaced.index));
      entry->set_block(static_cast<uint32_t>(replaced.block));
    }
    if (slice.score.has_value()) EncodeScore(*slice.score, to->mutable_score());
  }
}

absl::StatusOr<StepPlan> DecodePlan(const worker::v1::StepPlan& message, const StepLimits& limits) {
  StepPlan plan;
  plan.epoch = message.epoch();
  plan.step = message.step();
  plan.dropped.assign(message.dropped().begin(), message.dropped().end());

  OCTAVO_RETURN_IF_ERROR(CountWithin("block copies", message.copies_size(), limits.num_blocks));
  absl::flat_hash_set<BlockId> sources, targets;
  plan.copies.reserve(message.copies_size());
  for (const auto& copy : message.copies()) {
    BlockCopy& to = plan.copies.emplace_back();
    OCTAVO_ASSIGN_OR_RETURN(to.source, InRange("copy source", copy.source(), 1, limits.num_blocks));
    OCTAVO_ASSIGN_OR_RETURN(to.target, InRange("copy target", copy.target(), 1, limits.num_blocks));
    sources.insert(to.source);
    if (!targets.insert(to.target).second)
      return absl::InvalidArgumentError(
          absl::StrCat("block ", to.target, " is the target of two copies"));
  }
  for (const BlockCopy& copy : plan.copies)
    if (sources.contains(copy.target))
      return absl::InvalidArgumentError(
          absl::StrCat("block ", copy.target, " is both source and target of copies"));

  OCTAVO_RETURN_IF_ERROR(DecodeSwaps(message, limits, &plan));

  OCTAVO_RETURN_IF_ERROR(CountWithin("slices", message.slices_size(), limits.max_num_seqs));
  absl::flat_hash_set<SequenceId> sequences;
  int64_t tokens = 0;
  int64_t samples = 0;
  plan.slices.reserve(message.slices_size());
  for (const auto& slice : message.slices()) {
    OCTAVO_ASSIGN_OR_RETURN(SeqSlice decoded, DecodeSlice(slice, limits));
    tokens += decoded.num_tokens;
    OCTAVO_RETURN_IF_ERROR(
        CountWithin("tokens in one step", tokens, limits.max_num_batched_tokens));
    if (!sequences.insert(decoded.sequence).second)
      return absl::InvalidArgumentError(
          absl::StrCat("sequence ", decoded.sequence, " has two slices in one step"));
    for (const Fork& fork : decoded.forks)
      if (!sequences.insert(fork.child).second)
        return absl::InvalidArgumentError(
            absl::StrCat("sequence ", fork.child, " is born twice, or has a slice in one step"));
    samples += decoded.sample ? 1 + static_cast<int64_t>(decoded.forks.size()) : 0;
    OCTAVO_RETURN_IF_ERROR(CountWithin("samples in one step", samples, limits.max_num_seqs));
    plan.slices.push_back(std::move(decoded));
  }
  return plan;
}

void EncodeResult(const StepResult& result, worker::v1::StepResult* out) {
  out->Clear();
  out->set_epoch(result.epoch);
  out->set_step(result.step);
  out->set_compute_seconds(result.compute_seconds);
  out->set_swap_out_seconds(result.swap_out_seconds);
  out->set_swap_in_seconds(result.swap_in_seconds);
  for (const SampledToken& sample : result.samples) {
    auto* to = out->add_samples();
    to->set_sequence(sample.sequence);
    to->set_token(static_cast<uint32_t>(sample.token));
    to->set_logprob(sample.logprob);
    EncodeTop(sample.top, to->mutable_top());
  }
  EncodeScores(result.scores, out);
}

absl::StatusOr<StepResult> DecodeResult(const worker::v1::StepResult& message,
                                        const StepLimits& limits) {
  StepResult result;
  result.epoch = message.epoch();
  result.step = message.step();
  OCTAVO_ASSIGN_OR_RETURN(result.compute_seconds,
                          Seconds("compute_seconds", message.compute_seconds()));
  OCTAVO_ASSIGN_OR_RETURN(result.swap_out_seconds,
                          Seconds("swap_out_seconds", message.swap_out_seconds()));
  OCTAVO_ASSIGN_OR_RETURN(result.swap_in_seconds,
                          Seconds("swap_in_seconds", message.swap_in_seconds()));
  OCTAVO_RETURN_IF_ERROR(CountWithin("samples", message.samples_size(), limits.max_num_seqs));
  result.samples.reserve(message.samples_size());
  for (const auto& sample : message.samples()) {
    SampledToken& to = result.samples.emplace_back();
    to.sequence = sample.sequence();
    OCTAVO_ASSIGN_OR_RETURN(to.token,
                            InRange("sampled token", sample.token(), 0, limits.vocab_size - 1));
    to.logprob = sample.logprob();
    OCTAVO_ASSIGN_OR_RETURN(to.top, DecodeTop(sample.top(), kMaxStepLogprobs, limits));
  }
  OCTAVO_ASSIGN_OR_RETURN(result.scores, DecodeScores(message, limits));
  return result;
}

void EncodeDescription(const WorkerDescription& description, worker::v1::DescribeResponse* out) {
  out->Clear();
  out->set_name(description.name);
  out->set_device(description.device);
  out->set_numeric_path(description.numeric_path);
  out->set_version(description.version);
  out->set_model_name(description.model_name);
  out->set_model_digest(description.model_digest);
  out->set_num_layers(static_cast<uint32_t>(description.kv_shape.num_layers));
  out->set_num_kv_heads(static_cast<uint32_t>(description.kv_shape.num_kv_heads));
  out->set_head_dim(static_cast<uint32_t>(description.kv_shape.head_dim));
  for (const int32_t window : description.kv_shape.layer_windows) {
    out->add_layer_windows(static_cast<uint32_t>(window));
  }
  out->set_vocab_size(static_cast<uint32_t>(description.vocab_size));
  out->set_max_positions(static_cast<uint32_t>(description.max_positions));
  out->set_memory_total_bytes(static_cast<uint64_t>(description.memory_total_bytes));
  out->set_memory_free_bytes(static_cast<uint64_t>(description.memory_free_bytes));
  out->set_loaded(description.loaded);
  out->set_rank(static_cast<uint32_t>(description.rank));
  out->set_world_size(static_cast<uint32_t>(description.world_size));
}

absl::StatusOr<WorkerDescription> DecodeDescription(const worker::v1::DescribeResponse& message) {
  WorkerDescription to;
  to.name = message.name();
  to.device = message.device();
  to.numeric_path = message.numeric_path();
  to.version = message.version();
  to.model_name = message.model_name();
  to.model_digest = message.model_digest();
  OCTAVO_ASSIGN_OR_RETURN(to.kv_shape.num_layers,
                          InRange("num_layers", message.num_layers(), 0, kInt32Max));
  OCTAVO_ASSIGN_OR_RETURN(to.kv_shape.num_kv_heads,
                          InRange("num_kv_heads", message.num_kv_heads(), 0, kInt32Max));
  OCTAVO_ASSIGN_OR_RETURN(to.kv_shape.head_dim,
                          InRange("head_dim", message.head_dim(), 0, kInt32Max));
  for (const uint32_t window : message.layer_windows()) {
    OCTAVO_ASSIGN_OR_RETURN(to.kv_shape.layer_windows.emplace_back(),
                            InRange("layer_windows", window, 0, kInt32Max));
  }
  OCTAVO_ASSIGN_OR_RETURN(to.vocab_size, InRange("vocab_size", message.vocab_size(), 0, kInt32Max));
  OCTAVO_ASSIGN_OR_RETURN(to.max_positions,
                          InRange("max_positions", message.max_positions(), 0, kInt32Max));
  OCTAVO_ASSIGN_OR_RETURN(to.memory_total_bytes,
                          Count64("memory_total_bytes", message.memory_total_bytes()));
  OCTAVO_ASSIGN_OR_RETURN(to.memory_free_bytes,
                          Count64("memory_free_bytes", message.memory_free_bytes()));
  to.loaded = message.loaded();
  OCTAVO_ASSIGN_OR_RETURN(to.world_size,
                          InRange("world_size", message.world_size(), 1, kMaxWorldSize));
  OCTAVO_ASSIGN_OR_RETURN(to.rank, InRange("rank", message.rank(), 0, to.world_size - 1));
  return to;
}

void EncodeProgress(const LoadProgress& progress, worker::v1::LoadProgress* out) {
  out->set_done_bytes(static_cast<uint64_t>(progress.done_bytes));
  out->set_total_bytes(static_cast<uint64_t>(progress.total_bytes));
}

LoadProgress DecodeProgress(const worker::v1::LoadProgress& message) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return {static_cast<int64_t>(std::min<uint64_t>(message.done_bytes(), kMost)),
          static_cast<int64_t>(std::min<uint64_t>(message.total_bytes(), kMost))};
}

void EncodeConfig(const WorkerConfig& config, worker::v1::ConfigureRequest* out) {
  out->Clear();
  out->set_epoch(config.epoch);
  out->set_kv_dtype(std::string(Info(config.kv_dtype).name));
  out->set_block_size(static_cast<uint32_t>(config.block_size));
  out->set_max_model_len(static_cast<uint32_t>(config.max_model_len));
  out->set_max_num_seqs(static_cast<uint32_t>(config.max_num_seqs));
  out->set_max_num_batched_tokens(static_cast<uint32_t>(config.max_num_batched_tokens));
  out->set_num_blocks(static_cast<uint64_t>(config.num_blocks));
  out->set_num_swap_blocks(static_cast<uint64_t>(config.num_swap_blocks));
  out->set_rank(static_cast<uint32_t>(config.rank));
  out->set_world_size(static_cast<uint32_t>(config.world_size));
  for (const std::string& address : config.communicator_addresses)
    out->add_communicator_addresses(address);
}

absl::StatusOr<WorkerConfig> DecodeConfig(const worker::v1::ConfigureRequest& message) {
  WorkerConfig to;
  to.epoch = message.epoch();
  const std::optional<DType> dtype = ParseFloatOrInt8(message.kv_dtype());
  if (!dtype.has_value())
    return absl::InvalidArgumentError(absl::StrCat("kv_dtype is \"", message.kv_dtype(),
                                                   "\"; it must be float32, fp16, bf16, int8, "
                                                   "fp8_e4m3 or fp8_e5m2"));
  to.kv_dtype = *dtype;
  OCTAVO_ASSIGN_OR_RETURN(to.block_size, InRange("block_size", message.block_size(), 8, 64));
  OCTAVO_ASSIGN_OR_RETURN(to.max_model_len,
                          InRange("max_model_len", message.max_model_len(), 1, kInt32Max));
  OCTAVO_ASSIGN_OR_RETURN(to.max_num_seqs,
                          InRange("max_num_seqs", message.max_num_seqs(), 1, kInt32Max));
  OCTAVO_ASSIGN_OR_RETURN(
      to.max_num_batched_tokens,
      InRange("max_num_batched_tokens", message.max_num_batched_tokens(), 1, kInt32Max));
  // Block ids are 32 bits and 0 is padding.
  OCTAVO_ASSIGN_OR_RETURN(to.num_blocks,
                          InRange("num_blocks", message.num_blocks(), 0, kInt32Max - 1));
  OCTAVO_ASSIGN_OR_RETURN(to.num_swap_blocks,
                          InRange("num_swap_blocks", message.num_swap_blocks(), 0, kInt32Max - 1));
  OCTAVO_ASSIGN_OR_RETURN(to.world_size,
                          InRange("world_size", message.world_size(), 1, kMaxWorldSize));
  OCTAVO_ASSIGN_OR_RETURN(to.rank, InRange("rank", message.rank(), 0, to.world_size - 1));
  OCTAVO_RETURN_IF_ERROR(
      InRange("communicator_addresses", message.communicator_addresses_size(), 0, to.world_size)
          .status());
  to.communicator_addresses.assign(message.communicator_addresses().begin(),
                                   message.communicator_addresses().end());
  return to;
}

void EncodeCapacity(const WorkerCapacity& capacity, worker::v1::ConfigureResponse* out) {
  out->Clear();
  out->set_num_blocks(static_cast<uint64_t>(capacity.num_blocks));
  out->set_weight_bytes(static_cast<uint64_t>(capacity.weight_bytes));
  out->set_activation_bytes(static_cast<uint64_t>(capacity.activation_bytes));
  out->set_kv_budget_bytes(static_cast<uint64_t>(capacity.kv_budget_bytes));
  out->set_budget_reason(capacity.budget_reason);
  out->set_num_swap_blocks(static_cast<uint64_t>(capacity.num_swap_blocks));
  out->set_communicator_address(capacity.communicator_address);
}

absl::StatusOr<WorkerCapacity> DecodeCapacity(const worker::v1::ConfigureResponse& message) {
  WorkerCapacity to;
  OCTAVO_ASSIGN_OR_RETURN(to.num_blocks,
                          InRange("num_blocks", message.num_blocks(), 0, kInt32Max - 1));
  OCTAVO_ASSIGN_OR_RETURN(to.weight_bytes, Count64("weight_bytes", message.weight_bytes()));
  OCTAVO_ASSIGN_OR_RETURN(to.activation_bytes,
                          Count64("activation_bytes", message.activation_bytes()));
  OCTAVO_ASSIGN_OR_RETURN(to.kv_budget_bytes,
                          Count64("kv_budget_bytes", message.kv_budget_bytes()));
  to.budget_reason = message.budget_reason();
  OCTAVO_ASSIGN_OR_RETURN(to.num_swap_blocks,
                          InRange("num_swap_blocks", message.num_swap_blocks(), 0, kInt32Max - 1));
  to.communicator_address = message.communicator_address();
  return to;
}

}  // namespace octavo
