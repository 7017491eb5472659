// What a Scheduler tells about its requests between two steps. Nothing here changes a plan.
#include <algorithm>

#include "scheduler/core/core_state.h"
#include "scheduler/core/request_report.h"
#include "scheduler/core/scheduler.h"
#include "scheduler/core/step_builder.h"

namespace octavo {
namespace {

RequestReport ReportOf(const CoreState& state, const RequestState& request) {
  RequestReport report;
  report.id = request.rank.id;
  report.running = request.phase == Phase::kRunning;
  report.priority = request.rank.priority;
  report.arrival = request.rank.arrival;
  report.first_scheduled = request.first_scheduled;
  report.prompt_tokens = request.prompt_tokens;
  report.cached_tokens = request.cached_tokens;
  report.computed_tokens = request.computed_tokens();
  report.generated_tokens = request.generated_tokens();
  report.max_tokens = request.request.max_tokens;
  report.choices = request.request.n;
  report.active_choices = request.width();
  report.preemptions = request.preemptions;
  for (const SequenceState& choice : request.choices) {
    const std::vector<BlockId>& blocks = choice.table.blocks();
    report.blocks += std::count_if(blocks.begin(), blocks.end(),
                                   [](BlockId block) { return block != kPaddingBlock; });
    report.exclusive_blocks += state.kv.NumExclusive(choice.table);
  }
  return report;
}

}  // namespace

std::vector<RequestReport> Scheduler::ReportRequests(size_t most) const {
  const CoreState& state = *state_;
  std::vector<RequestReport> reports;
  reports.reserve(std::min(most, state.requests.size()));
  for (const RequestState* request : state.queues.running()) {
    if (reports.size() < most) reports.push_back(ReportOf(state, *request));
  }
  for (const RequestState* request : state.queues.waiting()) {
    if (reports.size() == most) break;
    reports.push_back(ReportOf(state, *request));
  }
  return reports;
}

std::optional<WaitReport> Scheduler::ExplainWait(RequestId id) {
  const auto found = state_->requests.find(id);
  if (found == state_->requests.end()) return std::nullopt;
  WaitReport report;
  report.request = ReportOf(*state_, *found->second);
  StepBuilder(state_.get(), absl::UnixEpoch(), &state_->victim_scratch)
      .ExplainWait(found->second.get(), &report);
  return report;
}

std::optional<std::vector<ChoiceTable>> Scheduler::ReportTables(RequestId id) const {
  const auto found = state_->requests.find(id);
  if (found == state_->requests.end()) return std::nullopt;
  std::vector<ChoiceTable> tables;
  for (const SequenceState& choice : found->second->choices) {
    if (!choice.active) continue;
    ChoiceTable& table = tables.emplace_back();
    table.choice_index = choice.choice_index;
    table.computed_tokens = choice.computed;
    table.blocks.reserve(choice.table.blocks().size());
    const KvManager& kv = state_->kv;
    for (const BlockId block : choice.table.blocks()) {
      BlockEntry& entry = table.blocks.emplace_back();
      entry.group =
          static_cast<int32_t>((table.blocks.size() - 1) % static_cast<size_t>(kv.num_groups()));
      entry.block = block;
      if (block == kPaddingBlock) continue;
      entry.holders = kv.ref_count(block);
      entry.published = kv.Published(block);
    }
  }
  return tables;
}

void StepBuilder::ExplainWait(RequestState* request, WaitReport* report) {
  const SchedulerConfig& config = state_.config;
  const KvManager& kv = state_.kv;
  report->sequences_needed = request->phase == Phase::kWaiting ? request->width() : 0;
  report->sequences_taken = RunningWidth();
  report->max_sequences = MaxRunning(config);
  report->blocks_free = kv.num_free();
  const bool paged = config.kv_allocation == KvAllocation::kPaged;
  report->blocks_reserved =
      paged && !state_.queues.running().empty() ? AdmissionReserve(config, NextStepBlocks()) : 0;
  report->token_budget = config.max_num_batched_tokens;
  for (const RequestState* running : state_.queues.running()) {
    for (const SequenceState& choice : running->choices) {
      if (!choice.active || choice.ending()) continue;
      report->tokens_queued += choice.decoding ? 1 : choice.num_known() - choice.computed;
    }
  }
  if (request->phase == Phase::kRunning) return;
  report->prefix_tokens = MatchPrefix(request->leader()) * config.block_size;
  report->blocks_needed = BlocksToStart(request);
  for (RequestState* earlier : state_.queues.waiting()) {
    if (earlier == request) break;
    ++report->ahead;
    // One that waits for a producer lets others pass.
    int32_t awaited = 0;
    if (report->behind == 0 && FindProducer(earlier, &awaited) == nullptr) {
      report->behind = earlier->rank.id;
    }
  }
  const SequenceState* producer = FindProducer(request, &report->awaited_block);
  report->producer = producer == nullptr ? 0 : producer->request->rank.id;
  if (request->uncommitted_slices > 0 || request->last_step > kv.committed()) {
    report->reason = WaitReason::kStepInFlight;
  } else if (report->behind != 0) {
    report->reason = WaitReason::kBehind;
  } else if (report->sequences_taken + report->sequences_needed > report->max_sequences) {
    report->reason = WaitReason::kSequences;
  } else if (producer != nullptr) {
    report->reason = WaitReason::kProducer;
  } else if (report->blocks_needed > report->blocks_free - report->blocks_reserved) {
    report->reason = WaitReason::kBlocks;
  } else if (!paged && !kv.CanReserveRun(ReservedTokens(config, *request))) {
    report->reason = WaitReason::kAdjacency;
  } else {
    report->reason = WaitReason::kNextStep;
  }
}

}  // namespace octavo
