// EngineMetrics: the families with names of our own.
#include "common/program/program.h"
#include "scheduler/transport/metric_family.h"
#include "scheduler/transport/metrics_exporter.h"

namespace octavo {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;
using Family = MetricFamilyBuilder;

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

void AddSwapping(const EngineSnapshot& snapshot, std::vector<MetricFamily>* out) {
  const SchedulerStats& stats = snapshot.stats;
  const bool known = snapshot.capacity.num_blocks > 0;
  const double block_bytes = known ? Value(snapshot.capacity.geometry.bytes_per_block()) : 0;
  out->push_back(
      Family("octavo_swapped_bytes_total",
             "Bytes of preempted requests' blocks copied to host memory and back, of one "
             "worker.",
             MetricType::Counter)
          .Add(Value(stats.swapped_out_blocks) * block_bytes, {{"direction", "out"}})
          .Add(Value(stats.swapped_in_blocks) * block_bytes, {{"direction", "in"}})
          .Take());
  out->push_back(
      Family("octavo_swap_blocks", "Host blocks for swapping, by state.", MetricType::Gauge)
          .Add(Value(stats.num_swap_blocks - stats.used_swap_blocks), {{"state", "free"}})
          .Add(Value(stats.used_swap_blocks), {{"state", "active"}})
          .Take());
  out->push_back(Family("octavo_swap_drops_total",
                        "Returning requests whose host blocks were of no use, since what came "
                        "before them was gone.",
                        MetricType::Counter)
                     .Add(Value(stats.swap_drops))
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
  const auto gauge = [out](const char* name, const char* help, auto value) {
    out->push_back(Family(name, help, MetricType::Gauge).Add(Value(value)).Take());
  };
  const auto counter = [out](const char* name, const char* help, auto value) {
    out->push_back(Family(name, help, MetricType::Counter).Add(Value(value)).Take());
  };
  gauge("octavo_kv_usage_ratio", "Share of the blocks that sequences hold, 0 to 1.",
        BlockUsage(stats));
  gauge("octavo_kv_shared_blocks", "Blocks that two sequences or more hold.", stats.shared_blocks);
  gauge("octavo_kv_saved_blocks", "Blocks that sequences would hold more if nothing were shared.",
        stats.saved_blocks);
  gauge("octavo_kv_waste_slots",
        "Slots of the blocks held, for one token each, that hold no token yet.",
        stats.held_slots - stats.filled_slots);
  counter("octavo_kv_saved_blocks_total",
          "References made to blocks that another sequence held already.",
          stats.saved_blocks_total);
  counter("octavo_kv_copies_on_write_total", "Shared, partly filled blocks copied before a write.",
          stats.copies_on_write);
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
}

void AddPrefixCache(const SchedulerStats& stats, std::vector<MetricFamily>* out) {
  const auto counter = [out](const char* name, const char* help, uint64_t value) {
    out->push_back(Family(name, help, MetricType::Counter).Add(Value(value)).Take());
  };
  counter("octavo_prefix_cache_query_tokens_total",
          "Prompt tokens looked up in the prefix cache, once a request.",
          stats.prefix_query_tokens);
  counter("octavo_prefix_cache_hit_tokens_total", "Of those, found.", stats.prefix_hit_tokens);
  counter("octavo_prefix_cache_recovered_tokens_total",
          "Tokens that preempted requests found again instead of computing them again.",
          stats.recovered_tokens);
  counter("octavo_prefix_cache_evictions_total", "Cached blocks lent to somebody else.",
          stats.prefix_evictions);
  counter("octavo_prefix_cache_flushes_total", "Times an operator had the cache forgotten.",
          stats.prefix_flushes);
  counter("octavo_prefix_cache_waits_total",
          "Times a request waited for blocks that another one was computing.", stats.prefix_waits);
}

// Every mode and reason of preemption.
void AddPreemptions(const EngineSnapshot& snapshot, std::vector<MetricFamily>* out) {
  const SchedulerStats& stats = snapshot.stats;
  out->push_back(
      Family("octavo_preemptions_total", "Requests that lost their blocks.", MetricType::Counter)
          .Add(Value(stats.preemptions_pool - stats.preemptions_swap),
               {{"mode", "recompute"}, {"reason", "no_free_blocks"}})
          .Add(Value(stats.preemptions_swap), {{"mode", "swap"}, {"reason", "no_free_blocks"}})
          .Add(Value(stats.preemptions_reset), {{"mode", "recompute"}, {"reason", "worker_reset"}})
          .Take());
  out->push_back(Family("octavo_preempted_tokens_total",
                        "Computed tokens that preemptions gave up.", MetricType::Counter)
                     .Add(Value(stats.preempted_tokens))
                     .Take());
  AddSwapping(snapshot, out);
}

void AddRequests(const EngineSnapshot& snapshot, std::vector<MetricFamily>* out) {
  const SchedulerStats& stats = snapshot.stats;
  out->push_back(Family("octavo_requests", "Requests now, by state.", MetricType::Gauge)
                     .Add(Value(stats.running), {{"state", "running"}})
                     .Add(Value(stats.waiting - stats.preempted), {{"state", "waiting"}})
                     .Add(Value(stats.preempted), {{"state", "preempted"}})
                     .Take());
  out->push_back(
      Family("octavo_requests_finished_total", "Requests that ended.", MetricType::Counter)
          .Add(Value(stats.finished_stop), {{"reason", "stop"}})
          .Add(Value(stats.finished_length), {{"reason", "length"}})
          .Add(Value(stats.finished_abort - snapshot.failed_requests), {{"reason", "abort"}})
          .Add(Value(snapshot.failed_requests), {{"reason", "error"}})
          .Take());
  out->push_back(
      Family("octavo_waiting_tokens", "Known tokens of requests that wait.", MetricType::Gauge)
          .Add(Value(stats.waiting_tokens))
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
  AddPrefixCache(snapshot.stats, &families);
  AddPreemptions(snapshot, &families);
  AddRequests(snapshot, &families);
  AddLatencies(snapshot.latencies, &families);
  AddVllmMetrics(snapshot, model_name, &families);
  return families;
}

}  // namespace octavo
