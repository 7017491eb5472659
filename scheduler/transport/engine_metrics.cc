#include <cstdint>
#include <limits>
#include <utility>

#include "common/program/program.h"
#include "prometheus/client_metric.h"
#include "prometheus/metric_family.h"
#include "prometheus/metric_type.h"
#include "scheduler/transport/metrics_exporter.h"

namespace octavo {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Family {
 public:
  Family(std::string name, std::string help, MetricType type)
      : family_{std::move(name), std::move(help), type, {}} {}

  Family& Add(double value, Labels labels = {}) {
    ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    if (family_.type == MetricType::Counter)
      metric.counter.value = value;
    else
      metric.gauge.value = value;
    return *this;
  }

  Family& Add(const Histogram& histogram, Labels labels = {}) {
    ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    metric.histogram.sample_count = histogram.count();
    metric.histogram.sample_sum = histogram.sum();
    uint64_t cumulative = 0;
    for (size_t bucket = 0; bucket < histogram.bounds().size(); ++bucket) {
      cumulative += histogram.in_bucket(bucket);
      metric.histogram.bucket.push_back({cumulative, histogram.bounds()[bucket]});
    }
    metric.histogram.bucket.push_back({histogram.count(), std::numeric_limits<double>::infinity()});
    return *this;
  }

  MetricFamily Take() { return std::move(family_); }

 private:
  MetricFamily family_;
};

double Value(auto number) { return static_cast<double>(number); }

void AddState(const EngineSnapshot& snapshot, const std::string& model_name,
              std::vector<MetricFamily>* out) {
  out->push_back(Family("octavo_build_info", "Version and model of this server.", MetricType::Gauge)
                     .Add(1, {{"version", Version()}, {"model", model_name}})
                     .Take());
  Family state("octavo_engine_state", "1 for the state that the engine is in.", MetricType::Gauge);
  for (const EngineState each :
       {EngineState::kConnecting, EngineState::kLoading, EngineState::kReady,
        EngineState::kRecovering, EngineState::kFailed})
    state.Add(each == snapshot.state ? 1 : 0, {{"state", std::string(Name(each))}});
  out->push_back(state.Take());
  Family up("octavo_worker_up", "1 while the worker is connected.", MetricType::Gauge);
  for (const WorkerStatus& worker : snapshot.workers)
    up.Add(worker.connected ? 1 : 0, {{"worker", worker.name}});
  out->push_back(up.Take());
  out->push_back(Family("octavo_worker_recoveries_total",
                        "Times the workers were lost and everything running was recomputed.",
                        MetricType::Counter)
                     .Add(Value(snapshot.recoveries))
                     .Take());
}

void AddCache(const EngineSnapshot& snapshot, std::vector<MetricFamily>* out) {
  const SchedulerStats& stats = snapshot.stats;
  const CapacityReport& capacity = snapshot.capacity;
  const bool known = capacity.num_blocks > 0;
  out->push_back(Family("octavo_kv_blocks",
                        "KV cache blocks: empty, lendable but with content, or held by sequences.",
                        MetricType::Gauge)
                     .Add(Value(stats.free_blocks), {{"state", "free"}})
                     .Add(Value(stats.cached_blocks), {{"state", "cached"}})
                     .Add(Value(stats.active_blocks), {{"state", "active"}})
                     .Take());
  out->push_back(Family("octavo_kv_bytes_per_token", "Bytes of keys and values of one token.",
                        MetricType::Gauge)
                     .Add(known ? Value(capacity.geometry.bytes_per_token()) : 0)
                     .Take());
  out->push_back(Family("octavo_kv_block_size_tokens", "Tokens in one block.", MetricType::Gauge)
                     .Add(known ? Value(capacity.geometry.block_size()) : 0)
                     .Take());
  out->push_back(Family("octavo_kv_max_concurrency",
                        "Requests that fit at once, of the longest and of the mean length.",
                        MetricType::Gauge)
                     .Add(known ? capacity.max_concurrency() : 0, {{"length", "max_model_len"}})
                     .Add(known ? capacity.mean_concurrency() : 0, {{"length", "mean"}})
                     .Take());
  out->push_back(
      Family("octavo_preemptions_total", "Requests that lost their blocks.", MetricType::Counter)
          .Add(Value(stats.preemptions_pool), {{"mode", "recompute"}, {"reason", "no_free_blocks"}})
          .Add(Value(stats.preemptions_reset), {{"mode", "recompute"}, {"reason", "worker_reset"}})
          .Take());
  out->push_back(Family("octavo_preempted_tokens_total",
                        "Computed tokens that preemptions gave up.", MetricType::Counter)
                     .Add(Value(stats.preempted_tokens))
                     .Take());
}

void AddRequests(const EngineSnapshot& snapshot, std::vector<MetricFamily>* out) {
  const SchedulerStats& stats = snapshot.stats;
  out->push_back(Family("octavo_requests", "Requests now, by state.", MetricType::Gauge)
                     .Add(Value(stats.running), {{"state", "running"}})
                     .Add(Value(stats.waiting), {{"state", "waiting"}})
                     .Take());
  out->push_back(
      Family("octavo_requests_finished_total", "Requests that ended.", MetricType::Counter)
          .Add(Value(stats.finished_stop), {{"reason", "stop"}})
          .Add(Value(stats.finished_length), {{"reason", "length"}})
          .Add(Value(stats.finished_abort - snapshot.failed_requests), {{"reason", "abort"}})
          .Add(Value(snapshot.failed_requests), {{"reason", "error"}})
          .Take());
  out->push_back(Family("octavo_tokens_total",
                        "Tokens computed in prefill (again after preemptions) and generated.",
                        MetricType::Counter)
                     .Add(Value(stats.prompt_tokens), {{"kind", "prompt"}})
                     .Add(Value(stats.generated_tokens), {{"kind", "generated"}})
                     .Take());
}

void AddLatencies(const EngineLatencies& latencies, std::vector<MetricFamily>* out) {
  out->push_back(Family("octavo_step_seconds",
                        "One step: computing on the worker, and Schedule plus Commit.",
                        MetricType::Histogram)
                     .Add(latencies.worker, {{"phase", "worker"}})
                     .Add(latencies.schedule, {{"phase", "schedule"}})
                     .Take());
  const auto add = [out](const char* name, const char* help, const Histogram& histogram) {
    out->push_back(Family(name, help, MetricType::Histogram).Add(histogram).Take());
  };
  add("octavo_time_to_first_token_seconds", "Arrival to first token.", latencies.first_token);
  add("octavo_inter_token_latency_seconds", "Between two tokens of a request.",
      latencies.inter_token);
  add("octavo_request_queue_time_seconds", "Arrival to first scheduled.", latencies.queue);
  add("octavo_e2e_request_latency_seconds", "Arrival to last token.", latencies.end_to_end);
}

}  // namespace

std::vector<MetricFamily> EngineMetrics(const EngineSnapshot& snapshot,
                                        const std::string& model_name) {
  std::vector<MetricFamily> families;
  AddState(snapshot, model_name, &families);
  AddCache(snapshot, &families);
  AddRequests(snapshot, &families);
  AddLatencies(snapshot.latencies, &families);
  return families;
}

}  // namespace octavo
