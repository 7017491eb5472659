#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/byte_size.h"
#include "common/cache_geometry.h"
#include "google/protobuf/util/json_util.h"
#include "grpcpp/grpcpp.h"
#include "octavo/v1/admin.grpc.pb.h"
#include "tools/channel.h"
#include "tools/command.h"
#include "tools/simulate/traffic.h"

namespace octavo::tools {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(2);
constexpr absl::Duration kFlushTimeout = absl::Seconds(10);  // it waits for a step to end

struct StatusOptions {
  std::string target = kDefaultTarget;
  bool watch = false;
  bool json = false;
  bool flush = false;
  double wait_seconds = 0;
  std::string traffic;  // file to write it to
};

std::string StateName(v1::EngineState state) {
  switch (state) {
    case v1::ENGINE_STATE_CONNECTING:
      return "connecting";
    case v1::ENGINE_STATE_LOADING:
      return "loading";
    case v1::ENGINE_STATE_READY:
      return "ready";
    case v1::ENGINE_STATE_RECOVERING:
      return "recovering";
    case v1::ENGINE_STATE_DRAINING:
      return "draining";
    default:
      return "unknown";
  }
}

grpc::Status Fetch(v1::Admin::Stub& stub, v1::GetStateResponse* state) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  return stub.GetState(&context, v1::GetStateRequest(), state);
}

void PrintCapacity(const v1::Capacity& capacity, const v1::BlockCounts& blocks) {
  absl::PrintF("bytes per token   %s\n", capacity.bytes_per_token_formula());
  const std::string groups = capacity.block_groups() > 1
                                 ? absl::StrCat(" / ", capacity.block_groups(), " groups of layers")
                                 : "";
  absl::PrintF(
      "capacity          %s blocks x %d tokens%s = %s tokens, %s\n",
      WithCommas(static_cast<int64_t>(blocks.total())), capacity.block_size(), groups,
      WithCommas(static_cast<int64_t>(capacity.total_tokens())),
      FormatByteSize(static_cast<int64_t>(capacity.total_tokens() * capacity.bytes_per_token())));
  absl::PrintF("concurrency       %.2f requests of %s tokens (--max-model-len)\n",
               capacity.max_concurrency(), WithCommas(capacity.max_model_len()));
  absl::PrintF("                  %.2f requests of %.0f tokens (%s)\n", capacity.mean_concurrency(),
               capacity.mean_tokens(),
               capacity.mean_is_measured() ? "mean of ended requests"
                                           : "--expected-mean-tokens, no traffic yet");
}

void PrintPrefixCache(const v1::PrefixCacheState& cache) {
  if (!cache.enabled()) {
    absl::PrintF("prefix cache      off\n");
    return;
  }
  const double queried = static_cast<double>(cache.query_tokens());
  absl::PrintF("prefix cache      %s of %s prompt tokens found (%.1f %%), %d evictions, %d waits\n",
               WithCommas(static_cast<int64_t>(cache.hit_tokens())),
               WithCommas(static_cast<int64_t>(cache.query_tokens())),
               queried > 0 ? 100 * static_cast<double>(cache.hit_tokens()) / queried : 0.0,
               cache.evictions(), cache.waits());
}

void Print(const v1::GetStateResponse& state) {
  absl::PrintF("state             %s, octavo %s, up %s\n", StateName(state.state()),
               state.version(),
               absl::FormatDuration(absl::Seconds(static_cast<int64_t>(state.uptime_seconds()))));
  absl::PrintF("model             %s\n", state.model());
  if (state.has_capacity()) PrintCapacity(state.capacity(), state.blocks());
  absl::PrintF("blocks            %s free, %s cached, %s active\n",
               WithCommas(static_cast<int64_t>(state.blocks().free())),
               WithCommas(static_cast<int64_t>(state.blocks().cached())),
               WithCommas(static_cast<int64_t>(state.blocks().active())));
  absl::PrintF("sharing           %s blocks shared, %s saved, %s copies on write\n",
               WithCommas(static_cast<int64_t>(state.blocks().shared())),
               WithCommas(static_cast<int64_t>(state.blocks().saved())),
               WithCommas(static_cast<int64_t>(state.copies_on_write())));
  PrintPrefixCache(state.prefix_cache());
  absl::PrintF(
      "requests          %d running, %d waiting (%s tokens; %d preempted), %d preemptions\n",
      state.running(), state.waiting(), WithCommas(static_cast<int64_t>(state.waiting_tokens())),
      state.preempted(), state.preemptions());
  absl::PrintF("tokens            %s prompt, %s generated, %s steps, epoch %d\n",
               WithCommas(static_cast<int64_t>(state.prompt_tokens())),
               WithCommas(static_cast<int64_t>(state.generated_tokens())),
               WithCommas(static_cast<int64_t>(state.steps())), state.epoch());
  absl::PrintF("scheduling        %.1f us a step (median)\n", state.schedule_seconds_p50() * 1e6);
  for (const v1::WorkerState& worker : state.workers()) {
    absl::PrintF("worker            %s %s", worker.name(), worker.connected() ? "up" : "down");
    if (!worker.numeric_path().empty()) absl::PrintF(", %s", worker.numeric_path());
    if (worker.load_total_bytes() > worker.load_done_bytes())
      absl::PrintF(", loading %s of %s",
                   FormatByteSize(static_cast<int64_t>(worker.load_done_bytes())),
                   FormatByteSize(static_cast<int64_t>(worker.load_total_bytes())));
    if (worker.step_seconds_p50() > 0)
      absl::PrintF(", step %.2f ms (median)", worker.step_seconds_p50() * 1e3);
    absl::PrintF("\n");
  }
}

std::string Progress(const v1::GetStateResponse& state) {
  int64_t done = 0;
  int64_t total = 0;
  for (const v1::WorkerState& worker : state.workers()) {
    done += static_cast<int64_t>(worker.load_done_bytes());
    total += static_cast<int64_t>(worker.load_total_bytes());
  }
  std::string text = StateName(state.state());
  if (state.state() == v1::ENGINE_STATE_LOADING && total > 0)
    absl::StrAppend(&text, " ", FormatByteSize(done), " of ", FormatByteSize(total));
  return text;
}

// Polls until the scheduler is ready, telling every change on stderr.
grpc::Status WaitUntilReady(v1::Admin::Stub& stub, absl::Duration limit,
                            v1::GetStateResponse* state) {
  const absl::Time end = absl::Now() + limit;
  std::string told;
  while (true) {
    const grpc::Status status = Fetch(stub, state);
    if (status.ok() && state->state() == v1::ENGINE_STATE_READY) return status;
    const std::string progress =
        status.ok() ? Progress(*state) : absl::StrCat("waiting for the scheduler");
    if (progress != told) absl::FPrintF(stderr, "%s\n", progress);
    told = progress;
    if (absl::Now() >= end) return status;
    absl::SleepFor(absl::Milliseconds(50));
  }
}

int Flush(v1::Admin::Stub& stub, const std::string& target) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kFlushTimeout));
  v1::FlushPrefixCacheResponse flushed;
  const grpc::Status status =
      stub.FlushPrefixCache(&context, v1::FlushPrefixCacheRequest(), &flushed);
  if (!status.ok()) {
    absl::FPrintF(stderr, "octavo status: %s: %s\n", target, Describe(status));
    return 1;
  }
  absl::PrintF("prefix cache flushed: %s blocks forgotten\n",
               WithCommas(static_cast<int64_t>(flushed.blocks())));
  return 0;
}

simulate::LengthCounts FromProto(
    const google::protobuf::RepeatedPtrField<v1::LengthBucket>& buckets) {
  simulate::LengthCounts counts;
  for (const v1::LengthBucket& bucket : buckets)
    counts.buckets.push_back({static_cast<int64_t>(bucket.up_to()), bucket.count()});
  return counts;
}

int SaveTraffic(const StatusOptions& options) {
  auto stub = v1::Admin::NewStub(Connect(options.target));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  v1::GetTrafficResponse recorded;
  const grpc::Status status = stub->GetTraffic(&context, v1::GetTrafficRequest(), &recorded);
  if (!status.ok()) {
    absl::FPrintF(stderr, "octavo status: %s: %s\n", options.target, Describe(status));
    return 1;
  }
  const simulate::Traffic traffic = {
      .source = recorded.model(),
      .requests_per_second = recorded.requests_per_second(),
      .busiest_requests_per_second = recorded.busiest_requests_per_second(),
      .prompt = FromProto(recorded.prompt_tokens()),
      .output = FromProto(recorded.output_tokens()),
      .total = FromProto(recorded.total_tokens())};
  std::ofstream out(options.traffic, std::ios::binary);
  out << ToJson(traffic).dump() << "\n";
  out.close();
  if (!out) {
    absl::FPrintF(stderr, "octavo status: cannot write %s\n", options.traffic);
    return 1;
  }
  absl::FPrintF(stderr, "%d requests, %d of them ended, over %.0f s\n", recorded.arrivals(),
                traffic.total.total(), recorded.seconds());
  return 0;
}

int Status(const StatusOptions& options, Signals& signals) {
  auto stub = v1::Admin::NewStub(Connect(options.target));
  if (options.flush) return Flush(*stub, options.target);
  v1::GetStateResponse state;
  while (true) {
    const grpc::Status status =
        options.wait_seconds > 0
            ? WaitUntilReady(*stub, absl::Seconds(options.wait_seconds), &state)
            : Fetch(*stub, &state);
    if (!status.ok()) {
      absl::FPrintF(stderr, "octavo status: %s: %s\n", options.target, Describe(status));
      return 1;
    }
    if (options.json) {
      std::string json;
      google::protobuf::util::JsonPrintOptions print;
      print.always_print_primitive_fields = true;
      print.preserve_proto_field_names = true;
      if (!google::protobuf::util::MessageToJsonString(state, &json, print).ok()) return 1;
      absl::PrintF("%s\n", json);
    } else {
      if (options.watch) absl::PrintF("\x1b[H\x1b[2J");
      Print(state);
    }
    std::fflush(stdout);
    if (!options.watch) return state.state() == v1::ENGINE_STATE_READY ? 0 : 1;
    if (signals.Wait(absl::Seconds(1)) != 0) return 130;
  }
}

}  // namespace

CommandBody AddStatusCommand(CLI::App& app) {
  auto options = std::make_shared<StatusOptions>();
  app.add_option("--target", options->target, "Scheduler's HOST:PORT")->capture_default_str();
  app.add_flag("--watch", options->watch, "Refresh every second until interrupted");
  app.add_flag("--json", options->json, "Print the state as one JSON object");
  app.add_flag("--flush-prefix-cache", options->flush,
               "Have the scheduler forget every cached prefix, print how many blocks it forgot, "
               "and end")
      ->excludes("--watch", "--json");
  app.add_option("--wait", options->wait_seconds,
                 "Wait up to this many seconds for the scheduler to be ready, showing progress; "
                 "0: ask once, answer within 2 s")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--traffic", options->traffic,
                 "Write the lengths and the rate of the requests so far into this file, as JSON "
                 "for octavo advise, and print nothing else")
      ->type_name("FILE");
  app.footer("Exit status 0 only when the scheduler is ready.");
  return [options](Signals& signals) {
    return options->traffic.empty() ? Status(*options, signals) : SaveTraffic(*options);
  };
}

}  // namespace octavo::tools
