// How the engine's numbers become a family of the metrics page.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_METRIC_FAMILY_H_
#define OCTAVO_SCHEDULER_TRANSPORT_METRIC_FAMILY_H_

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "prometheus/client_metric.h"
#include "prometheus/metric_family.h"
#include "prometheus/metric_type.h"
#include "scheduler/engine/engine_snapshot.h"

namespace octavo {

// Builds one family. Counters, gauges and histograms only.
class MetricFamilyBuilder {
 public:
  using Labels = std::vector<prometheus::ClientMetric::Label>;

  MetricFamilyBuilder(std::string name, std::string help, prometheus::MetricType type)
      : family_{std::move(name), std::move(help), type, {}} {}

  MetricFamilyBuilder& Add(double value, Labels labels = {}) {
    prometheus::ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    if (family_.type == prometheus::MetricType::Counter)
      metric.counter.value = value;
    else
      metric.gauge.value = value;
    return *this;
  }

  MetricFamilyBuilder& Add(const Histogram& histogram, Labels labels = {}) {
    prometheus::ClientMetric& metric = family_.metric.emplace_back();
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

  prometheus::MetricFamily Take() { return std::move(family_); }

 private:
  prometheus::MetricFamily family_;
};

inline double Value(auto number) { return static_cast<double>(number); }

// Share of the blocks that sequences hold; 0 before the pool is known.
inline double BlockUsage(const SchedulerStats& stats) {
  return stats.num_blocks == 0 ? 0 : Value(stats.active_blocks) / Value(stats.num_blocks);
}

// The families of vLLM's page whose meaning is the same here, under vLLM's names, so that its
// dashboards and the gateways that read it work (vllm_metrics.cc).
void AddVllmMetrics(const EngineSnapshot& snapshot, const std::string& model_name,
                    std::vector<prometheus::MetricFamily>* out);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_METRIC_FAMILY_H_
