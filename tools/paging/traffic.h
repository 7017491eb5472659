// The requests that an allocation policy is measured with.
#ifndef OCTAVO_TOOLS_PAGING_TRAFFIC_H_
#define OCTAVO_TOOLS_PAGING_TRAFFIC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/core/request.h"

namespace octavo::paging {

struct TrafficOptions {
  // A trace file (Azure CSV, Mooncake JSON lines; arrival times are not used), or drawn lengths:
  //   sharegpt-like   prompts of mean 161 and answers of mean 338 tokens, log-normal
  //   classification  one instruction of 203 tokens before each text of mean 50; answers of 1 to 4
  //   documents       documents of mean 3,000 tokens, each asked 4 questions of mean 30; answers of
  //                   mean 100
  std::string trace = "sharegpt-like";
  int32_t requests = 128;
  int32_t max_model_len = 0;
  int32_t vocab_size = 0;
  uint64_t seed = 1;
};

struct Traffic {
  std::vector<Request> requests;  // greedy, each ends after exactly max_tokens
  int64_t skipped = 0;            // of the file, since they are longer than max_model_len
  int64_t clipped = 0;            // drawn ones, cut to it
};

// INVALID_ARGUMENT when the file has too few requests that fit.
absl::StatusOr<Traffic> MakeTraffic(const TrafficOptions& options);

}  // namespace octavo::paging

#endif  // OCTAVO_TOOLS_PAGING_TRAFFIC_H_
