// /metrics for Prometheus, filled from the engine's snapshot whenever it is asked.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_METRICS_EXPORTER_H_
#define OCTAVO_SCHEDULER_TRANSPORT_METRICS_EXPORTER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"
#include "scheduler/engine/engine_loop.h"
#include "scheduler/engine/engine_snapshot.h"

namespace octavo {

// Every family of the page, all label values present from the first scrape on, so that rates work.
std::vector<prometheus::MetricFamily> EngineMetrics(const EngineSnapshot& snapshot,
                                                    const std::string& model_name);

// Serves GET /metrics on threads of its own.
class MetricsExporter {
 public:
  // `engine` outlives the exporter. ALREADY_EXISTS and the like when it cannot listen.
  static absl::StatusOr<std::unique_ptr<MetricsExporter>> Start(const std::string& host, int port,
                                                                const EngineLoop* engine,
                                                                const std::string& model_name);
  ~MetricsExporter();
  MetricsExporter(const MetricsExporter&) = delete;
  MetricsExporter& operator=(const MetricsExporter&) = delete;

  const std::string& address() const { return address_; }  // "127.0.0.1:9400"

 private:
  MetricsExporter() = default;

  std::shared_ptr<prometheus::Collectable> metrics_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::string address_;
  std::string wake_host_;  // numeric, of this machine
  int port_ = 0;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_METRICS_EXPORTER_H_
