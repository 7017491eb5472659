#include "scheduler/transport/metrics_exporter.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/server.h"
#include "common/status_macros.h"
#include "prometheus/metric_family.h"

namespace octavo {
namespace {

class EngineCollectable : public prometheus::Collectable {
 public:
  EngineCollectable(const EngineLoop* engine, std::string model_name)
      : engine_(engine), model_name_(std::move(model_name)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    return EngineMetrics(engine_->snapshot(), model_name_);
  }

 private:
  const EngineLoop* const engine_;
  const std::string model_name_;
};

// Opens a TCP connection and closes it at once.
void ConnectOnce(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found) != 0) return;
  const int fd = socket(found->ai_family, found->ai_socktype | SOCK_NONBLOCK, found->ai_protocol);
  if (fd >= 0) {
    // It need not succeed: the attempt alone wakes the listener, and after the last it fails.
    [[maybe_unused]] const int result = connect(fd, found->ai_addr, found->ai_addrlen);
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsExporter>> MetricsExporter::Start(
    const std::string& host, int port, const EngineLoop* engine, const std::string& model_name) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string numeric, ProbeListen(host, port));
  auto exporter = std::unique_ptr<MetricsExporter>(new MetricsExporter);
  // A listener on all addresses is reached on the loopback one.
  exporter->wake_host_ = numeric == "0.0.0.0" ? "127.0.0.1" : numeric == "::" ? "::1" : numeric;
  exporter->metrics_ = std::make_shared<EngineCollectable>(engine, model_name);
  try {
    exporter->exposer_ = std::make_unique<prometheus::Exposer>(JoinHostPort(numeric, port));
    exporter->exposer_->RegisterCollectable(exporter->metrics_);
    const std::vector<int> ports = exporter->exposer_->GetListeningPorts();
    if (ports.empty()) throw std::runtime_error("no listening port");
    exporter->port_ = ports.front();
    exporter->address_ = JoinHostPort(host, exporter->port_);
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", JoinHostPort(host, port), ": ", error.what()));
  }
  return exporter;
}

MetricsExporter::~MetricsExporter() {
  if (exposer_ == nullptr) return;
  // The HTTP server's listener sleeps up to two seconds before it sees that it should stop; a
  // connection wakes it.
  std::atomic<bool> stopped = false;
  std::thread stop([this, &stopped] {
    exposer_.reset();
    stopped = true;
  });
  while (!stopped) {
    ConnectOnce(wake_host_, port_);
    absl::SleepFor(absl::Milliseconds(5));
  }
  stop.join();
}

}  // namespace octavo
