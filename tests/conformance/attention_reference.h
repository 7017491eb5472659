// What paged attention should give, in double precision.
#ifndef OCTAVO_TESTS_CONFORMANCE_ATTENTION_REFERENCE_H_
#define OCTAVO_TESTS_CONFORMANCE_ATTENTION_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "common/dtype.h"

namespace octavo {

struct PagedShape {
  int32_t num_heads = 3;
  int32_t num_kv_heads = 1;
  int32_t head_dim = 64;
  DType dtype = DType::kBF16;
  int32_t block_size = 16;
  int32_t sliding_window = 0;
  // The layer under test is in a group of its own, the second: the first sees all (kv.7). Its
  // tables have the padding block where the window sees nothing.
  bool in_windowed_group = false;
  float softcap = 0;
};

// Queries, keys and values of one sequence, [length, heads * head_dim].
struct TokenRows {
  int32_t length = 0;
  std::vector<float> q, k, v;
};

// Deterministic per seed. Scores spread over some units, so that softmax is neither flat nor a max.
TokenRows RandomTokens(const PagedShape& shape, int32_t length, uint64_t seed);

// Of the scores: 1 / sqrt(head_dim).
double ScaleOf(const PagedShape& shape);

// The row at `position`, [num_heads * head_dim], K and V rounded to the cache's dtype.
std::vector<double> AttentionReference(const PagedShape& shape, const TokenRows& tokens,
                                       int32_t position);

}  // namespace octavo

#endif  // OCTAVO_TESTS_CONFORMANCE_ATTENTION_REFERENCE_H_
