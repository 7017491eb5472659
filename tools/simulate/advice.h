// Answers an operator's questions about capacity from recorded traffic, by simulation.
#ifndef OCTAVO_TOOLS_SIMULATE_ADVICE_H_
#define OCTAVO_TOOLS_SIMULATE_ADVICE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tools/simulate/simulation.h"
#include "tools/simulate/simulation_options.h"
#include "tools/simulate/traffic.h"

namespace octavo::simulate {

// More preemptions than this per request, when requests always wait, are sustained: the pool is
// too small for the sequences that may run.
inline constexpr double kSustainedPreemptions = 0.01;

// Requests always wait: what the system can do at most.
struct FullLoad {
  double requests_per_second = 0;
  double tokens_per_second = 0;
  double preemptions_per_request = 0;
  double running = 0;  // mean
};

// Poisson arrivals at the rate of the busiest minute.
struct Busiest {
  bool overloaded = false;  // more comes than can be served: latencies only grow
  double ttft_p99_ms = 0;
  double itl_p99_ms = 0;
  double queue_p99_ms = 0;
};

// One way to set the system up, and how it does.
struct Alternative {
  std::string name;   // "int8 KV cache"
  std::string flags;  // "--kv-cache-dtype=int8"
  int64_t num_blocks = 0;
  int32_t block_size = 0;
  FullLoad full;
  Busiest busiest;
  std::string why_not;  // not empty: it does not work, and nothing else is filled in
};

struct LengthChoice {
  double share = 0;  // of requests served
  int64_t max_model_len = 0;
  double refused = 0;  // share of requests
};

struct Advice {
  Traffic traffic;
  std::string device;
  std::string model;
  int32_t cards = 1;
  int64_t bytes_per_token = 0;        // of all cards
  std::vector<LengthChoice> lengths;  // 95, 99, 99.9 and 100 %
  Alternative now;                    // as the flags say
  int32_t max_num_seqs = 0;
  // Of a pool that never is the limit, at the busiest minute's rate; 0 when that is an overload.
  double blocks_mean = 0;
  double blocks_peak = 0;
  // The most sequences without sustained preemption, and how the system does with that.
  int32_t advised_num_seqs = 0;
  bool never_sustained = false;  // that is as many as one step can have
  FullLoad advised;
  std::vector<Alternative> alternatives;
};

// Tells what is simulated next; false ends it early.
using AdviceProgress = std::function<bool(const std::string& what)>;

// `trace` has the requests to simulate with, `options` everything but the arrivals.
// INVALID_ARGUMENT when the system as the flags say cannot work; CANCELLED by `progress`.
absl::StatusOr<Advice> Advise(const Traffic& traffic, const Trace& trace,
                              const SimulationOptions& options, const AdviceProgress& progress);

nlohmann::ordered_json ToJson(const Advice& advice);
// Whole sentences with numbers.
std::string ToText(const Advice& advice);

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_ADVICE_H_
