#include "scheduler/transport/scheduler_server.h"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/checkpoint/dummy_checkpoint.h"
#include "common/log.h"
#include "common/program/program.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

// How soon the watcher notices that it should end.
constexpr absl::Duration kWatchEvery = absl::Milliseconds(100);
// For calls that are writing their last message when the engine has stopped.
constexpr absl::Duration kStopGrace = absl::Seconds(2);

// Appears whole or not at all: whoever waits for it may read it at once.
absl::Status WritePortFile(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  if (std::ofstream(draft) << text << std::flush && std::rename(draft.c_str(), path.c_str()) == 0)
    return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write --port-file ", path));
}

}  // namespace

absl::StatusOr<ServedModel> LoadServedModel(const std::string& model,
                                            const std::string& load_format) {
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                          OpenModel(model, load_format));
  return MakeServedModel(model, checkpoint->config(), checkpoint->tokenizer(),
                         checkpoint->digest());
}

absl::StatusOr<std::unique_ptr<SchedulerServer>> SchedulerServer::Start(
    const SchedulerFlags& flags, ServedModel model,
    std::vector<std::unique_ptr<Executor>> executors) {
  OCTAVO_ASSIGN_OR_RETURN(const EngineOptions options, MakeEngineOptions(flags, &model));
  auto server = std::unique_ptr<SchedulerServer>(new SchedulerServer(std::move(model)));
  const ServedModel& served = server->model_;
  server->engine_ = std::make_unique<EngineLoop>(options, std::move(executors));
  server->generation_ = std::make_unique<GenerationService>(server->engine_.get(), &served);
  server->admin_ = std::make_unique<AdminService>(server->engine_.get(),
                                                  &server->generation_->registry(), served.name);
  OCTAVO_ASSIGN_OR_RETURN(
      server->rpc_,
      RpcServer::Start({.host = flags.host,
                        .port = flags.port,
                        .health_services = {kGenerationServiceName, kAdminServiceName}},
                       {server->generation_.get(), server->admin_.get()}));
  OCTAVO_ASSIGN_OR_RETURN(
      server->metrics_,
      MetricsExporter::Start(flags.host, flags.metrics_port, server->engine_.get(), served.name));
  server->rpc_->SetServing(kAdminServiceName, true);
  if (!flags.port_file.empty())
    OCTAVO_RETURN_IF_ERROR(WritePortFile(
        flags.port_file,
        absl::StrCat("grpc=", server->address(), "\nmetrics=", server->metrics_address(), "\n")));
  OCTAVO_LOG(kInfo, "octavo-scheduler ", Version(), " model=", served.name,
             " grpc=", server->address(), " metrics=http://", server->metrics_address(),
             "/metrics");
  server->engine_->Start();
  server->watcher_ = std::thread([raw = server.get()] { raw->Watch(); });
  return server;
}

SchedulerServer::~SchedulerServer() { Stop(); }

absl::Status SchedulerServer::WaitUntilReady(absl::Duration timeout) const {
  const absl::Time deadline = absl::Now() + timeout;
  EngineState state = engine_->AwaitChange(EngineState::kConnecting, timeout);
  while (state != EngineState::kReady && state != EngineState::kFailed) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration())
      return absl::DeadlineExceededError(
          absl::StrCat("the engine is still ", Name(engine_->snapshot().state)));
    state = engine_->AwaitChange(state, left);
  }
  return state == EngineState::kReady ? absl::OkStatus() : engine_->snapshot().failure;
}

bool SchedulerServer::Drain(absl::Duration timeout) {
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    rpc_->SetServing(kGenerationServiceName, false);
  }
  engine_->Drain();
  OCTAVO_LOG(kInfo, "draining requests=", engine_->snapshot().live_streams);
  return engine_->AwaitDrained(timeout);
}

void SchedulerServer::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(stopping_, true)) return;
  }
  if (watcher_.joinable()) watcher_.join();
  // Its streams end first: then the calls can, and no thread of the engine knows a call any more.
  if (engine_ != nullptr) engine_->Stop();
  if (rpc_ != nullptr) rpc_->Shutdown(kStopGrace);
}

void SchedulerServer::Watch() {
  EngineState seen = EngineState::kConnecting;
  bool reported = false;
  while (true) {
    const EngineState state = engine_->AwaitChange(seen, kWatchEvery);
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    if (state == seen) continue;
    seen = state;
    rpc_->SetServing(kGenerationServiceName, state == EngineState::kReady && !draining_);
    if (state != EngineState::kReady || std::exchange(reported, true)) continue;
    for (const std::string& line : Lines(engine_->snapshot().capacity)) OCTAVO_LOG(kInfo, line);
    OCTAVO_LOG(kInfo, "ready grpc=", rpc_->address());
  }
}

}  // namespace octavo
