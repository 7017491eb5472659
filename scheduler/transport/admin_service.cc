#include "scheduler/transport/admin_service.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/program/program.h"
#include "common/rpc/error_details.h"
#include "common/rpc/grpc_status.h"
#include "common/status_macros.h"
#include "scheduler/transport/engine_errors.h"
#include "scheduler/transport/request_info.h"

namespace octavo {
namespace {

v1::EngineState ToProto(const EngineSnapshot& snapshot) {
  if (snapshot.draining) return v1::ENGINE_STATE_DRAINING;
  switch (snapshot.state) {
    case EngineState::kConnecting:
      return v1::ENGINE_STATE_CONNECTING;
    case EngineState::kLoading:
      return v1::ENGINE_STATE_LOADING;
    case EngineState::kReady:
      return v1::ENGINE_STATE_READY;
    case EngineState::kRecovering:
      return v1::ENGINE_STATE_RECOVERING;
    case EngineState::kFailed:
      return v1::ENGINE_STATE_UNSPECIFIED;
  }
  return v1::ENGINE_STATE_UNSPECIFIED;
}

void FillCapacity(const CapacityReport& report, v1::Capacity* out) {
  if (report.num_blocks == 0) return;
  out->set_bytes_per_token(static_cast<uint64_t>(report.geometry.bytes_per_token()));
  out->set_bytes_per_token_formula(report.geometry.Formula());
  out->set_block_size(static_cast<uint32_t>(report.geometry.block_size()));
  out->set_block_groups(static_cast<uint32_t>(report.geometry.num_groups()));
  out->set_total_tokens(static_cast<uint64_t>(report.total_tokens()));
  out->set_max_model_len(static_cast<uint32_t>(report.max_model_len));
  out->set_max_concurrency(report.max_concurrency());
  out->set_mean_concurrency(report.mean_concurrency());
  out->set_mean_tokens(report.mean_tokens);
  out->set_mean_is_measured(report.mean_is_measured);
}

void FillWorker(const WorkerStatus& worker, v1::WorkerState* out) {
  out->set_name(worker.name);
  out->set_device(worker.device);
  out->set_numeric_path(worker.numeric_path);
  out->set_connected(worker.connected);
  out->set_load_done_bytes(static_cast<uint64_t>(worker.load_done_bytes));
  out->set_load_total_bytes(static_cast<uint64_t>(worker.load_total_bytes));
  out->set_last_step_seconds(worker.last_step_seconds);
  out->set_step_seconds_p50(worker.step_seconds_p50);
  out->set_weight_bytes(static_cast<uint64_t>(worker.weight_bytes));
}

void FillPrefixCache(const SchedulerStats& stats, bool enabled, v1::PrefixCacheState* out) {
  out->set_enabled(enabled);
  out->set_query_tokens(stats.prefix_query_tokens);
  out->set_hit_tokens(stats.prefix_hit_tokens);
  out->set_recovered_tokens(stats.recovered_tokens);
  out->set_evictions(stats.prefix_evictions);
  out->set_flushes(stats.prefix_flushes);
  out->set_waits(stats.prefix_waits);
  out->set_saved_blocks_total(stats.saved_blocks_total);
}

// They ask between two steps, which takes a moment each.
constexpr int kTaskThreads = 1;
constexpr size_t kMaxQueuedTasks = 64;

absl::Status Unknown(const std::string& request_id) {
  return WithResource(absl::NotFoundError(absl::StrCat("no request \"", request_id,
                                                       "\" waits or runs; it may have ended")),
                      {"request", request_id});
}

void FillLengths(const LengthHistogram& lengths,
                 google::protobuf::RepeatedPtrField<v1::LengthBucket>* out) {
  size_t end = LengthHistogram::kNumBuckets;
  while (end > 0 && lengths.count(end - 1) == 0) --end;
  for (size_t i = 0; i < end; ++i) {
    v1::LengthBucket* bucket = out->Add();
    bucket->set_up_to(static_cast<uint64_t>(LengthHistogram::UpTo(i)));
    bucket->set_count(lengths.count(i));
  }
}

}  // namespace

AdminService::AdminService(EngineLoop* engine, const RequestRegistry* registry,
                           std::string model_name)
    : engine_(engine),
      registry_(registry),
      model_name_(std::move(model_name)),
      started_(absl::Now()),
      tasks_(kTaskThreads, kMaxQueuedTasks) {}

grpc::ServerUnaryReactor* AdminService::RunTask(grpc::CallbackServerContext* context,
                                                std::function<absl::Status()> work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool accepted = tasks_.TryRun([this, context, reactor, work = std::move(work)] {
    absl::Status status = work();
    if (!status.ok()) status = WithAdvice(std::move(status), engine_->snapshot());
    reactor->Finish(FinishStatus(status, context));
  });
  if (!accepted)
    reactor->Finish(FinishStatus(WithAdvice(absl::ResourceExhaustedError(absl::StrCat(
                                                kMaxQueuedTasks, " questions wait already")),
                                            engine_->snapshot()),
                                 context));
  return reactor;
}

absl::StatusOr<RequestId> AdminService::Find(const std::string& request_id) const {
  if (request_id.empty()) return InvalidField("request_id", "is empty");
  const std::optional<RequestId> id = registry_->Find(request_id);
  if (!id.has_value()) return Unknown(request_id);
  return *id;
}

grpc::ServerUnaryReactor* AdminService::FlushPrefixCache(grpc::CallbackServerContext* context,
                                                         const v1::FlushPrefixCacheRequest*,
                                                         v1::FlushPrefixCacheResponse* response) {
  return RunTask(context, [this, response]() -> absl::Status {
    OCTAVO_ASSIGN_OR_RETURN(const int64_t blocks, engine_->FlushPrefixCache());
    response->set_blocks(static_cast<uint64_t>(blocks));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::ListRequests(grpc::CallbackServerContext* context,
                                                     const v1::ListRequestsRequest* request,
                                                     v1::ListRequestsResponse* response) {
  return RunTask(context, [this, request, response]() -> absl::Status {
    const uint32_t most =
        request->limit() == 0 ? kMostListed : std::min(request->limit(), kMostListed);
    OCTAVO_ASSIGN_OR_RETURN(const std::vector<RequestReport> reports,
                            engine_->ReportRequests(most));
    const absl::Time now = absl::Now();
    for (const RequestReport& report : reports)
      FillRequestInfo(report, registry_->NameOf(report.id), now, response->add_requests());
    const SchedulerStats stats = engine_->snapshot().stats;
    response->set_total(static_cast<uint64_t>(stats.running + stats.waiting));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::ExplainRequest(grpc::CallbackServerContext* context,
                                                       const v1::ExplainRequestRequest* request,
                                                       v1::ExplainRequestResponse* response) {
  return RunTask(context, [this, request, response]() -> absl::Status {
    OCTAVO_ASSIGN_OR_RETURN(const RequestId id, Find(request->request_id()));
    OCTAVO_ASSIGN_OR_RETURN(const std::optional<WaitReport> report, engine_->ExplainWait(id));
    if (!report.has_value()) return Unknown(request->request_id());
    FillRequestInfo(report->request, request->request_id(), absl::Now(),
                    response->mutable_request());
    FillExplanation(*report, registry_->NameOf(report->behind), registry_->NameOf(report->producer),
                    response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::GetBlockTable(grpc::CallbackServerContext* context,
                                                      const v1::GetBlockTableRequest* request,
                                                      v1::GetBlockTableResponse* response) {
  return RunTask(context, [this, request, response]() -> absl::Status {
    OCTAVO_ASSIGN_OR_RETURN(const RequestId id, Find(request->request_id()));
    OCTAVO_ASSIGN_OR_RETURN(const auto tables, engine_->ReportTables(id));
    if (!tables.has_value()) return Unknown(request->request_id());
    response->set_block_size(static_cast<uint32_t>(engine_->options().scheduler.block_size));
    for (const ChoiceTable& table : *tables) FillBlockTable(table, response->add_choices());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::GetTraffic(grpc::CallbackServerContext* context,
                                                   const v1::GetTrafficRequest*,
                                                   v1::GetTrafficResponse* response) {
  const TrafficReport traffic = engine_->traffic();
  response->set_model(model_name_);
  response->set_arrivals(traffic.arrivals);
  response->set_seconds(traffic.seconds);
  response->set_requests_per_second(traffic.per_second());
  response->set_busiest_requests_per_second(traffic.busiest_per_second);
  FillLengths(traffic.prompt, response->mutable_prompt_tokens());
  FillLengths(traffic.output, response->mutable_output_tokens());
  FillLengths(traffic.total, response->mutable_total_tokens());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::GetState(grpc::CallbackServerContext* context,
                                                 const v1::GetStateRequest*,
                                                 v1::GetStateResponse* response) {
  const EngineSnapshot snapshot = engine_->snapshot();
  const SchedulerStats& stats = snapshot.stats;
  response->set_state(ToProto(snapshot));
  response->set_version(Version());
  response->set_model(model_name_);
  v1::BlockCounts* blocks = response->mutable_blocks();
  blocks->set_total(static_cast<uint64_t>(stats.num_blocks));
  blocks->set_free(static_cast<uint64_t>(stats.free_blocks));
  blocks->set_cached(static_cast<uint64_t>(stats.cached_blocks));
  blocks->set_active(static_cast<uint64_t>(stats.active_blocks));
  blocks->set_shared(static_cast<uint64_t>(stats.shared_blocks));
  blocks->set_saved(static_cast<uint64_t>(stats.saved_blocks));
  FillPrefixCache(stats, engine_->options().scheduler.prefix_cache,
                  response->mutable_prefix_cache());
  response->set_copies_on_write(stats.copies_on_write);
  response->set_preempted(static_cast<uint64_t>(stats.preempted));
  FillCapacity(snapshot.capacity, response->mutable_capacity());
  response->set_running(static_cast<uint64_t>(stats.running));
  response->set_waiting(static_cast<uint64_t>(stats.waiting));
  response->set_waiting_tokens(static_cast<uint64_t>(stats.waiting_tokens));
  response->set_steps(stats.steps);
  response->set_epoch(snapshot.epoch);
  response->set_preemptions(stats.preemptions_pool + stats.preemptions_reset);
  response->set_prompt_tokens(stats.prompt_tokens);
  response->set_generated_tokens(stats.generated_tokens);
  response->set_schedule_seconds_p50(snapshot.latencies.recent_schedule.Median());
  response->set_uptime_seconds(absl::ToDoubleSeconds(absl::Now() - started_));
  for (const WorkerStatus& worker : snapshot.workers) FillWorker(worker, response->add_workers());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace octavo
