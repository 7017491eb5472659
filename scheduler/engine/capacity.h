// What the KV pool holds, in the numbers that operators ask for (design chapter 6).
#ifndef OCTAVO_SCHEDULER_ENGINE_CAPACITY_H_
#define OCTAVO_SCHEDULER_ENGINE_CAPACITY_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/cache_geometry.h"

namespace octavo {

struct CapacityReport {
  CacheGeometry geometry;  // of one rank
  int64_t num_blocks = 0;  // lendable
  int32_t max_model_len = 0;
  double mean_tokens = 0;         // of one request, prompt plus generated
  bool mean_is_measured = false;  // false before traffic: mean_tokens is --expected-mean-tokens

  // Tokens that fit when none has left a window; old ones cost less.
  int64_t total_tokens() const {
    return num_blocks * geometry.block_size() / std::max(1, geometry.num_groups());
  }
  int64_t pool_bytes() const { return geometry.PoolBytes(num_blocks); }
  // Requests of max_model_len, and of mean_tokens, that fit at once.
  double max_concurrency() const;
  double mean_concurrency() const;
};

// One fact a line, without an end of line.
std::vector<std::string> Lines(const CapacityReport& report);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_ENGINE_CAPACITY_H_
