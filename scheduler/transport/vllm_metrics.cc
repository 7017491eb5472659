// AddVllmMetrics: names, labels and meanings as vLLM has them. A "kv cache" there counts blocks
// that sequences hold as used and cached ones as free, as we do.
#include "absl/strings/str_cat.h"
#include "scheduler/transport/metric_family.h"

namespace octavo {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;
using Family = MetricFamilyBuilder;
using Labels = MetricFamilyBuilder::Labels;

class Page {
 public:
  Page(const std::string& model_name, std::vector<MetricFamily>* out)
      : base_{{"model_name", model_name}, {"engine", "0"}}, out_(out) {}

  Labels With(Labels more) const {
    more.insert(more.end(), base_.begin(), base_.end());
    return more;
  }
  void Gauge(const char* name, const char* help, double value) {
    out_->push_back(Family(name, help, MetricType::Gauge).Add(value, base_).Take());
  }
  void Counter(const char* name, const char* help, double value) {
    out_->push_back(Family(name, help, MetricType::Counter).Add(value, base_).Take());
  }
  void Distribution(const char* name, const char* help, const Histogram& histogram) {
    out_->push_back(Family(name, help, MetricType::Histogram).Add(histogram, base_).Take());
  }
  void Add(MetricFamily family) { out_->push_back(std::move(family)); }

 private:
  const Labels base_;
  std::vector<MetricFamily>* const out_;
};

void AddConfig(const EngineSnapshot& snapshot, Page* page) {
  const CapacityReport& capacity = snapshot.capacity;
  if (capacity.num_blocks == 0) return;
  page->Add(
      Family("vllm:cache_config_info", "Configuration of the KV cache.", MetricType::Gauge)
          .Add(1, page->With({{"block_size", absl::StrCat(capacity.geometry.block_size())},
                              {"num_gpu_blocks", absl::StrCat(capacity.num_blocks)},
                              {"cache_dtype", std::string(Info(capacity.geometry.dtype()).name)},
                              {"enable_prefix_caching", snapshot.prefix_cache ? "True" : "False"}}))
          .Take());
}

void AddLoad(const SchedulerStats& stats, Page* page) {
  page->Gauge("vllm:num_requests_running", "Requests in model execution batches.",
              Value(stats.running));
  page->Gauge("vllm:num_requests_waiting", "Requests waiting to be processed.",
              Value(stats.waiting));
  page->Gauge("vllm:kv_cache_usage_perc", "KV cache usage, 0 to 1.", BlockUsage(stats));
  page->Counter("vllm:num_preemptions_total", "Requests that lost their blocks.",
                Value(stats.preemptions_pool + stats.preemptions_reset));
}

void AddTokens(const SchedulerStats& stats, Page* page) {
  page->Counter("vllm:prefix_cache_queries_total", "Tokens looked up in the prefix cache.",
                Value(stats.prefix_query_tokens));
  page->Counter("vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.",
                Value(stats.prefix_hit_tokens));
  page->Counter("vllm:prompt_tokens_total", "Prompt tokens of requests that started.",
                Value(stats.started_prompt_tokens));
  page->Counter("vllm:prompt_tokens_cached_total", "Of those, found in the prefix cache.",
                Value(stats.prefix_hit_tokens));
  const double computed = Value(stats.started_prompt_tokens - stats.prefix_hit_tokens);
  page->Add(Family("vllm:prompt_tokens_by_source_total", "Prompt tokens by where they came from.",
                   MetricType::Counter)
                .Add(computed, page->With({{"source", "local_compute"}}))
                .Add(Value(stats.prefix_hit_tokens), page->With({{"source", "local_cache_hit"}}))
                .Take());
  page->Counter("vllm:generation_tokens_total", "Tokens generated.", Value(stats.generated_tokens));
}

}  // namespace

void AddVllmMetrics(const EngineSnapshot& snapshot, const std::string& model_name,
                    std::vector<MetricFamily>* out) {
  const SchedulerStats& stats = snapshot.stats;
  Page page(model_name, out);
  AddConfig(snapshot, &page);
  AddLoad(stats, &page);
  AddTokens(stats, &page);
  page.Add(
      Family("vllm:request_success_total", "Requests that ended, by reason.", MetricType::Counter)
          .Add(Value(stats.finished_stop), page.With({{"finished_reason", "stop"}}))
          .Add(Value(stats.finished_length), page.With({{"finished_reason", "length"}}))
          .Add(Value(stats.finished_abort - snapshot.failed_requests),
               page.With({{"finished_reason", "abort"}}))
          .Add(Value(snapshot.failed_requests), page.With({{"finished_reason", "error"}}))
          .Take());
  const EngineLatencies& latencies = snapshot.latencies;
  page.Distribution("vllm:time_to_first_token_seconds", "Arrival to first token.",
                    latencies.first_token);
  page.Distribution("vllm:inter_token_latency_seconds", "Between two tokens of a choice.",
                    latencies.inter_token);
  page.Distribution("vllm:e2e_request_latency_seconds", "Arrival to last token.",
                    latencies.end_to_end);
  page.Distribution("vllm:request_queue_time_seconds", "Arrival to first scheduled.",
                    latencies.queue);
}

}  // namespace octavo
