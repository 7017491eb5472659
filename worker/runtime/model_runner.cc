#include "worker/runtime/model_runner.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/check.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "common/status_naming.h"
#include "worker/cpu/host_limits.h"
#include "worker/runtime/largest_step.h"
#include "worker/runtime/make_device.h"

namespace octavo {
namespace {

absl::Status CheckConfig(const WorkerConfig& config) {
  const auto positive = [](const char* field, int64_t value) {
    return value > 0 ? absl::OkStatus()
                     : absl::InvalidArgumentError(
                           absl::StrCat(field, " is ", value, "; it must be at least 1"));
  };
  OCTAVO_RETURN_IF_ERROR(positive("max_model_len", config.max_model_len));
  OCTAVO_RETURN_IF_ERROR(positive("max_num_seqs", config.max_num_seqs));
  OCTAVO_RETURN_IF_ERROR(positive("max_num_batched_tokens", config.max_num_batched_tokens));
  if (config.num_blocks < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("num_blocks is ", config.num_blocks, "; it must not be negative"));
  if (config.num_swap_blocks < 0)
    return absl::InvalidArgumentError(
        absl::StrCat("num_swap_blocks is ", config.num_swap_blocks, "; it must not be negative"));
  return absl::OkStatus();
}

// What may be taken beside what was asked for: pieces of 2 MiB, which drivers hand memory out in,
// of some 15 buffers.
constexpr int64_t kUncountedBytes = int64_t{32} << 20;

bool SameLimits(const WorkerConfig& a, const WorkerConfig& b) {
  return a.kv_dtype == b.kv_dtype && a.block_size == b.block_size &&
         a.max_model_len == b.max_model_len && a.max_num_seqs == b.max_num_seqs &&
         a.max_num_batched_tokens == b.max_num_batched_tokens;
}

absl::Status CheckPlace(const WorkerConfig& config, const GroupPlace& place) {
  if (config.rank == place.rank && config.world_size == place.size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "this worker was started as rank ", place.rank, " of ", place.size,
      " (--tensor-parallel-rank, --tensor-parallel-size); the scheduler takes it for rank ",
      config.rank, " of ", config.world_size));
}

}  // namespace

ModelRunner::ModelRunner(Backend& backend, const Model& model, const MemoryFlags& memory,
                         const CommunicatorOptions& communication)
    : backend_(backend), model_(model), memory_(memory), communication_(communication) {
  communication_.place = model.split.place;
}

absl::StatusOr<WorkerCapacity> ModelRunner::Configure(const WorkerConfig& config) {
  OCTAVO_RETURN_IF_ERROR(CheckConfig(config));
  OCTAVO_RETURN_IF_ERROR(CheckPlace(config, model_.split.place));
  OCTAVO_ASSIGN_OR_RETURN(
      const CacheGeometry geometry,
      CacheGeometry::Create(KvShapeOf(model_.config), config.kv_dtype, config.block_size));
  DecoderLimits limits;
  limits.max_rows = config.max_num_batched_tokens;
  limits.max_sampled = std::min(config.max_num_seqs, config.max_num_batched_tokens);
  limits.max_positions = config.max_model_len;
  const LargestStep step = {limits.max_rows,      config.max_num_seqs,     limits.max_sampled,
                            limits.max_positions, model_.config.num_heads, geometry};
  const int64_t activation_bytes = Decoder::ActivationBytes(model_, limits);
  OCTAVO_ASSIGN_OR_RETURN(const int64_t workspace_bytes, backend_.WorkspaceBytes(step));
  const MemoryUse use = {model_.weight_bytes, activation_bytes + workspace_bytes};
  if (config.num_blocks == 0) {
    OCTAVO_ASSIGN_OR_RETURN(WorkerCapacity capacity, PlanMeasured(config, use, geometry));
    if (communication_.place.size > 1) {
      OCTAVO_ASSIGN_OR_RETURN(offer_, OfferCommunicator(backend_, communication_));
      capacity.communicator_address = offer_->address();
    }
    return capacity;
  }
  Forget();
  // Before anything that may fail on this rank alone: the others then see it leave, and need not
  // wait for it in vain.
  OCTAVO_ASSIGN_OR_RETURN(Communicator* const communicator, JoinGroup(config));
  OCTAVO_RETURN_IF_ERROR(Naming("workspace of the largest step", backend_.Reserve(step)));
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder,
                          Decoder::Create(backend_, model_, limits, communicator));
  OCTAVO_ASSIGN_OR_RETURN(
      pool_, KvPool::Create(backend_, geometry, config.num_blocks, config.num_swap_blocks));
  MirrorLimits mirror;
  mirror.num_blocks = config.num_blocks;
  mirror.block_size = config.block_size;
  mirror.max_model_len = config.max_model_len;
  mirror.max_num_seqs = config.max_num_seqs;
  mirror.max_num_batched_tokens = config.max_num_batched_tokens;
  mirror.vocab_size = model_.config.vocab_size;
  mirror.group_windows = WindowsOf(geometry.groups());
  mirror.num_swap_blocks = config.num_swap_blocks;
  mirror_ = std::make_unique<TableMirror>(mirror);
  if (config.num_swap_blocks > 0) {
    absl::MutexLock lock(&swaps_mutex_);
    swaps_ = std::make_unique<SwapQueue>(*pool_);
  }
  inputs_ = std::make_unique<StepInputs>(backend_);
  decoder_ = std::move(decoder);
  activation_bytes_ = activation_bytes;

  WorkerCapacity capacity;
  capacity.num_blocks = config.num_blocks;
  capacity.num_swap_blocks = config.num_swap_blocks;
  capacity.weight_bytes = use.weight_bytes;
  capacity.activation_bytes = use.activation_bytes;
  capacity.kv_budget_bytes = geometry.PoolBytes(config.num_blocks + 1);
  capacity.budget_reason = absl::StrCat(config.num_blocks, " blocks, as configured");
  return capacity;
}

absl::StatusOr<WorkerCapacity> ModelRunner::Plan(const MemoryUse& use,
                                                 const CacheGeometry& geometry) const {
  OCTAVO_ASSIGN_OR_RETURN(DeviceMemory memory, backend_.Memory());
  if (!memory.dedicated) return PlanHostMemory(memory_, memory, use, geometry);
  // What a configuration gives back first.
  if (pool_ != nullptr)
    memory.free_bytes += pool_->geometry().PoolBytes(pool_->num_blocks() + 1) + activation_bytes_;
  OCTAVO_ASSIGN_OR_RETURN(const HostMemory host, ReadHostMemory());
  return PlanDeviceMemory(memory_, memory, host.available_bytes, use, geometry);
}

absl::StatusOr<WorkerCapacity> ModelRunner::PlanMeasured(const WorkerConfig& config,
                                                         const MemoryUse& use,
                                                         const CacheGeometry& geometry) {
  OCTAVO_ASSIGN_OR_RETURN(const WorkerCapacity computed, Plan(use, geometry));
  OCTAVO_ASSIGN_OR_RETURN(const DeviceMemory memory, backend_.Memory());
  // The steps of a group need the group, which is founded with the blocks known.
  if (!memory.dedicated || FixesBudget(memory_) || communication_.place.size > 1) return computed;
  if (!measured_ || !SameLimits(*measured_, config)) {
    if (configured() || computed.num_blocks < geometry.num_groups()) return computed;
    OCTAVO_RETURN_IF_ERROR(Naming(
        absl::StrCat("the largest step, --max-num-batched-tokens ", config.max_num_batched_tokens,
                     " and --max-num-seqs ", config.max_num_seqs),
        Measure(config, geometry, computed.num_blocks, use.activation_bytes)));
  }
  return Plan({use.weight_bytes, measured_bytes_}, geometry);
}

absl::Status ModelRunner::Measure(WorkerConfig config, const CacheGeometry& geometry,
                                  int64_t most_blocks, int64_t computed_bytes) {
  // Besides full blocks, each sequence has one begun and may need one for what it decodes.
  const int64_t wanted = config.max_num_batched_tokens / config.block_size +
                         2 * int64_t{std::min(config.max_num_seqs, config.max_num_batched_tokens)};
  config.num_blocks = std::min(wanted * geometry.num_groups(), most_blocks);
  config.num_swap_blocks = 0;
  const auto start = std::chrono::steady_clock::now();
  OCTAVO_ASSIGN_OR_RETURN(const LargestStepUse use, MeasureLargestStep(backend_, model_, config));
  measured_ = config;
  measured_bytes_ = use.bytes;
  const std::string both = absl::StrCat("measured=", FormatByteSize(use.bytes + use.stay_bytes),
                                        " of libraries=", FormatByteSize(use.stay_bytes),
                                        " of graphs=", FormatByteSize(use.graph_bytes),
                                        " computed=", FormatByteSize(computed_bytes));
  if (use.bytes + use.stay_bytes > computed_bytes + kUncountedBytes)
    OCTAVO_LOG(kWarning, "the largest step takes more memory than was computed ", both);
  OCTAVO_LOG(kInfo, "the largest step was run ", both, " seconds=",
             std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return absl::OkStatus();
}

void ModelRunner::Forget() {
  // Before all that waits for its collectives: they wait for other ranks.
  std::unique_ptr<Communicator> left;
  {
    absl::MutexLock lock(&communicator_mutex_);
    left = std::move(communicator_);
  }
  left.reset();
  if (!begun_.empty()) {
    // What they compute reads what is about to be freed; what came of it is of no use to anybody.
    const absl::Status ended = backend_.Synchronize();
    if (!ended.ok()) OCTAVO_LOG(kWarning, "a forgotten step failed: ", ended.ToString());
    begun_.clear();
  }
  std::unique_ptr<SwapQueue> ended;
  {
    absl::MutexLock lock(&swaps_mutex_);
    ended = std::move(swaps_);
  }
  ended.reset();  // waits for its copies
  decoder_.reset();
  inputs_.reset();
  mirror_.reset();
  pool_.reset();
}

absl::StatusOr<Communicator*> ModelRunner::JoinGroup(const WorkerConfig& config) {
  if (communication_.place.size == 1) return nullptr;
  if (offer_ == nullptr)
    return absl::FailedPreconditionError(
        "this rank was not asked for its communicator's address; ask before configuring");
  const std::unique_ptr<CommunicatorOffer> offer = std::move(offer_);
  OCTAVO_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> joined,
                          offer->Join(config.communicator_addresses));
  Communicator* const communicator = joined.get();
  absl::MutexLock lock(&communicator_mutex_);
  communicator_ = std::move(joined);
  return communicator;
}

void ModelRunner::AbortCommunication(const absl::Status& reason) {
  absl::MutexLock lock(&communicator_mutex_);
  if (communicator_ != nullptr) communicator_->Abort(reason);
}

bool ModelRunner::RunsAhead(const StepPlan& plan) {
  return backend_.runs_ahead() && communication_.place.size == 1 && plan.swap_outs.empty() &&
         std::none_of(plan.slices.begin(), plan.slices.end(),
                      [](const SeqSlice& slice) { return slice.score.has_value(); });
}

absl::StatusOr<StepResult> ModelRunner::Execute(const StepPlan& plan) {
  OCTAVO_RETURN_IF_ERROR(Begin(plan));
  return Finish();
}

absl::Status ModelRunner::Begin(const StepPlan& plan) {
  if (!configured()) return absl::FailedPreconditionError("no KV cache is configured");
  OCTAVO_CHECK(begun_.empty() || (begun_.size() < kMaxStepsInFlight && RunsAhead(plan)),
               "step=", plan.step, " begun=", begun_.size());
  OCTAVO_RETURN_IF_ERROR(mirror_->Apply(plan));
  BegunStep& step = begun_.emplace_back();
  step.result.epoch = plan.epoch;
  step.result.step = plan.step;
  SwapQueue* const swapping = swaps();
  if (swapping != nullptr) {
    OCTAVO_ASSIGN_OR_RETURN(step.result.swap_in_seconds, swapping->FinishIns(plan));
    swapping->BeginOuts(plan);
  }
  step.start = std::chrono::steady_clock::now();
  OCTAVO_RETURN_IF_ERROR(pool_->CopyBlocks(plan.copies));
  if (!plan.slices.empty()) OCTAVO_RETURN_IF_ERROR(Launch(plan, &step));
  return backend_.SubmitStep();
}

absl::StatusOr<StepResult> ModelRunner::Finish() {
  OCTAVO_CHECK(!begun_.empty());
  BegunStep& step = begun_.front();
  // Also of a step that only copies: an answered step is a complete one, since later swaps run
  // beside the ops, not behind them.
  OCTAVO_RETURN_IF_ERROR(backend_.FinishStep());
  OCTAVO_RETURN_IF_ERROR(Deliver(&step));
  const auto now = std::chrono::steady_clock::now();
  // It computes from when the step before it had finished.
  step.result.compute_seconds =
      std::chrono::duration<double>(now - std::max(step.start, finished_)).count();
  finished_ = now;
  if (SwapQueue* const swapping = swaps(); swapping != nullptr) {
    OCTAVO_ASSIGN_OR_RETURN(step.result.swap_out_seconds, swapping->FinishOuts());
  }
  StepResult result = std::move(step.result);
  begun_.pop_front();
  return result;
}

void ModelRunner::BeginSwapIns(const StepPlan& plan) {
  absl::MutexLock lock(&swaps_mutex_);
  if (swaps_ != nullptr) swaps_->BeginIns(plan);
}

SwapQueue* ModelRunner::swaps() {
  absl::MutexLock lock(&swaps_mutex_);
  return swaps_.get();
}

absl::Status ModelRunner::Launch(const StepPlan& plan, BegunStep* step) {
  OCTAVO_RETURN_IF_ERROR(inputs_->Build(plan, *mirror_));
  OCTAVO_ASSIGN_OR_RETURN(const Matrix logits, decoder_->Forward(inputs_->batch(), pool_->view(),
                                                                 inputs_->sampled_row_ids()));
  const std::vector<SampleRow>& rows = inputs_->sample_rows();
  step->scores = !inputs_->scored_slices().empty();
  step->sequences = inputs_->sampled_sequences();
  for (size_t i = 0; i < rows.size(); ++i) {
    step->positions.push_back(static_cast<int32_t>(rows[i].position));
    mirror_->ExpectSample(step->sequences[i], static_cast<int32_t>(i), step->positions[i]);
  }
  if (!rows.empty() && sampling_rank()) {
    sample_params_.logits = logits;
    sample_params_.rows.assign(rows.begin(), rows.end());
    sample_params_.out = &step->sampled;
    OCTAVO_RETURN_IF_ERROR(backend_.Sample(sample_params_));
  }
  return AwaitRanks();
}

absl::Status ModelRunner::Deliver(BegunStep* step) {
  if (!step->sequences.empty()) OCTAVO_RETURN_IF_ERROR(ShareSamples(*step));
  step->result.samples.reserve(step->sampled.size());
  for (size_t i = 0; i < step->sequences.size(); ++i) {
    mirror_->RecordSample(step->sequences[i], shared_ids_[i], step->positions[i]);
    if (!sampling_rank()) continue;
    SampleOutput& output = step->sampled[i];
    step->result.samples.push_back(
        {step->sequences[i], output.token, output.logprob, std::move(output.top)});
  }
  // Those of this step: one with scores runs alone.
  return step->scores ? Score(&step->result) : absl::OkStatus();
}

Communicator* ModelRunner::communicator() {
  absl::MutexLock lock(&communicator_mutex_);
  return communicator_.get();
}

absl::Status ModelRunner::AwaitRanks() {
  Communicator* const group = communicator();
  return group == nullptr ? absl::OkStatus() : group->Finish();
}

absl::Status ModelRunner::ShareSamples(const BegunStep& step) {
  shared_ids_.resize(step.sequences.size());
  for (size_t i = 0; sampling_rank() && i < shared_ids_.size(); ++i)
    shared_ids_[i] = step.sampled[i].token;
  Communicator* const group = communicator();
  if (group == nullptr) return absl::OkStatus();
  return group->Broadcast(shared_ids_.data(),
                          static_cast<int64_t>(shared_ids_.size() * sizeof(TokenId)));
}

absl::Status ModelRunner::Score(StepResult* result) {
  const std::vector<int32_t>& row_ids = inputs_->scored_row_ids();
  std::vector<ScoredToken> scored;
  scored.reserve(row_ids.size());
  // As many rows at a time as the logits of a step have room for.
  const auto most = static_cast<size_t>(decoder_->max_sampled());
  for (size_t first = 0; first < row_ids.size(); first += most) {
    const auto begin = static_cast<std::ptrdiff_t>(first);
    const auto end = static_cast<std::ptrdiff_t>(std::min(first + most, row_ids.size()));
    score_ids_.assign(row_ids.begin() + begin, row_ids.begin() + end);
    OCTAVO_ASSIGN_OR_RETURN(sample_params_.logits, decoder_->Logits(score_ids_));
    OCTAVO_RETURN_IF_ERROR(AwaitRanks());
    if (!sampling_rank()) continue;
    sample_params_.rows.assign(inputs_->score_rows().begin() + begin,
                               inputs_->score_rows().begin() + end);
    sample_params_.out = &sampled_;
    OCTAVO_RETURN_IF_ERROR(backend_.Sample(sample_params_));
    OCTAVO_RETURN_IF_ERROR(backend_.Synchronize());
    for (SampleOutput& output : sampled_)
      scored.push_back({output.token, output.logprob, std::move(output.top)});
  }
  if (!sampling_rank()) return absl::OkStatus();
  auto next = scored.begin();
  for (const StepInputs::ScoredSlice& slice : inputs_->scored_slices()) {
    SliceScores& to = result->scores.emplace_back();
    to.sequence = slice.sequence;
    to.tokens.assign(std::make_move_iterator(next), std::make_move_iterator(next + slice.rows));
    next += slice.rows;
  }
  return absl::OkStatus();
}

}  // namespace octavo
