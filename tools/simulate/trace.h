// When requests arrive, how long their prompts and answers are, and which prompts begin alike.
#ifndef OCTAVO_TOOLS_SIMULATE_TRACE_H_
#define OCTAVO_TOOLS_SIMULATE_TRACE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace octavo::simulate {

// Tokens that one hash id of a Mooncake trace stands for.
inline constexpr int32_t kTokensPerHashId = 512;

struct TraceRequest {
  double arrival_seconds = 0;  // since the first one
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  // Of Trace::hash_ids: one for each 512 tokens of the prompt, the last one perhaps for fewer.
  // None: the prompt has nothing in common with another one.
  uint32_t first_hash_id = 0;
  uint32_t num_hash_ids = 0;
};

struct Trace {
  std::string name;
  std::vector<TraceRequest> requests;  // in order of arrival
  std::vector<uint32_t> hash_ids;
  bool has_arrivals = true;  // false: only lengths are known, all arrive at once

  std::span<const uint32_t> HashIds(const TraceRequest& request) const {
    return std::span(hash_ids).subspan(request.first_hash_id, request.num_hash_ids);
  }
  // Of one pass through it, with the mean gap after the last request: a repeat starts then.
  double Period() const {
    const size_t count = requests.size();
    if (count < 2) return 1;
    const double last = requests.back().arrival_seconds;
    return last * static_cast<double>(count) / static_cast<double>(count - 1);
  }
  int64_t LongestRequest() const;  // prompt plus output tokens
};

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_TRACE_H_
