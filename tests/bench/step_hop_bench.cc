// What the way to a worker and back costs: a decode plan through RemoteExecutor, over loopback TCP,
// to a worker that answers at once. The bound is two thread wake-ups.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>

#include "absl/synchronization/mutex.h"
#include "common/check.h"
#include "common/rpc/server.h"
#include "grpcpp/grpcpp.h"
#include "octavo/worker/v1/worker.grpc.pb.h"
#include "scheduler/transport/remote_executor.h"

namespace octavo {
namespace {

// Samples token 1 for every slice.
class EchoStream : public grpc::ServerBidiReactor<worker::v1::StepRequest, worker::v1::StepResult> {
 public:
  EchoStream() { StartRead(&request_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    result_.Clear();
    const worker::v1::StepPlan& plan = request_.plan();
    result_.set_epoch(plan.epoch());
    result_.set_step(plan.step());
    for (const auto& slice : plan.slices()) {
      auto* sample = result_.add_samples();
      sample->set_sequence(slice.sequence());
      sample->set_token(1);
    }
    StartWrite(&result_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  worker::v1::StepRequest request_;
  worker::v1::StepResult result_;
};

class EchoWorker : public worker::v1::Worker::CallbackService {
 public:
  grpc::ServerBidiReactor<worker::v1::StepRequest, worker::v1::StepResult>* Step(
      grpc::CallbackServerContext*) override {
    return new EchoStream;
  }
  grpc::ServerUnaryReactor* Configure(grpc::CallbackServerContext* context,
                                      const worker::v1::ConfigureRequest* request,
                                      worker::v1::ConfigureResponse* response) override {
    response->set_num_blocks(request->num_blocks());
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

StepPlan DecodePlanOf(int64_t sequences) {
  StepPlan plan{.epoch = 1};
  for (int64_t i = 0; i < sequences; ++i)
    plan.slices.push_back({.sequence = static_cast<SequenceId>(i),
                           .context_length = 1000,
                           .num_tokens = 1,
                           .feed_sampled = true,
                           .sample = true});
  return plan;
}

void BM_StepHop(benchmark::State& state) {
  EchoWorker worker;
  auto server = RpcServer::Start({}, {&worker});
  OCTAVO_CHECK(server.ok(), server.status().message());
  RemoteExecutor executor({.target = (*server)->address()});
  OCTAVO_CHECK(executor
                   .Configure({.epoch = 1,
                               .max_model_len = 2048,
                               .max_num_seqs = 256,
                               .max_num_batched_tokens = 2048,
                               .num_blocks = 1})
                   .ok());
  absl::Mutex mutex;
  StepId answered = 0;
  const absl::Status started = executor.Start([&](absl::StatusOr<StepResult> result) {
    absl::MutexLock lock(&mutex);
    if (result.ok()) answered = result->step;
  });
  OCTAVO_CHECK(started.ok());
  StepPlan plan = DecodePlanOf(state.range(0));
  for (auto _ : state) {
    ++plan.step;
    OCTAVO_CHECK(executor.Submit(plan).ok());
    absl::MutexLock lock(&mutex);
    const auto done = [&] { return answered == plan.step; };
    mutex.Await(absl::Condition(&done));
  }
  executor.Stop();
}
BENCHMARK(BM_StepHop)->Arg(1)->Arg(32)->Arg(256)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace octavo

BENCHMARK_MAIN();
