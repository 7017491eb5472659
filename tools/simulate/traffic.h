// Traffic as a live scheduler recorded it, or as a trace has it: how long requests are and how
// often they come.
#ifndef OCTAVO_TOOLS_SIMULATE_TRAFFIC_H_
#define OCTAVO_TOOLS_SIMULATE_TRAFFIC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "tools/simulate/trace.h"

namespace octavo::simulate {

// Counts of lengths in tokens: bucket i has those above up_to of bucket i - 1 and up to its own.
struct LengthCounts {
  struct Bucket {
    int64_t up_to = 0;
    uint64_t count = 0;
  };
  std::vector<Bucket> buckets;  // up_to increases

  uint64_t total() const;
  // The smallest up_to that at least `share` of all do not exceed; 0 when there are none.
  int64_t Percentile(double share) const;
  // Share of all above `length`, a length at a bucket's end.
  double ShareAbove(int64_t length) const;
  // Bucket middles weighted by their counts.
  double Mean() const;
};

struct Traffic {
  std::string source;
  double requests_per_second = 0;          // mean
  double busiest_requests_per_second = 0;  // over the busiest minute
  LengthCounts prompt;
  LengthCounts output;
  LengthCounts total;  // prompt plus output of one request
};

// {"format": "octavo-traffic-1", "source", "requests_per_second", "busiest_requests_per_second",
// "prompt_tokens": [[up_to, count], ...], "output_tokens": ..., "total_tokens": ...}
nlohmann::ordered_json ToJson(const Traffic& traffic);
absl::StatusOr<Traffic> ParseTraffic(absl::string_view json);
absl::StatusOr<Traffic> ReadTrafficFile(absl::string_view path);

// Exact counts: a bucket for each length that occurs.
Traffic TrafficOf(const Trace& trace);

// `count` requests with these lengths. Prompt and output are drawn independently of each other,
// since histograms do not say how they go together; where the two exceed the longest total that
// was seen, the output is cut. No arrival times. REQUIRES: the histograms are not empty.
Trace DrawTrace(const Traffic& traffic, int64_t count, uint64_t seed);

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_TRAFFIC_H_
