#include "scheduler/transport/admin_service.h"

#include "common/program/program.h"

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

}  // namespace

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
