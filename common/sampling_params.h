// How the next token of a sequence is chosen from its logits.
#ifndef OCTAVO_COMMON_SAMPLING_PARAMS_H_
#define OCTAVO_COMMON_SAMPLING_PARAMS_H_

#include <cstdint>

#include "absl/status/status.h"

namespace octavo {

// What a client may ask for, and what a step may carry: beam search needs more.
inline constexpr int32_t kMaxTopLogprobs = 20;
inline constexpr int32_t kMaxStepLogprobs = 64;

// Filters apply in the order temperature, top_k, top_p, min_p; docs/sampling.md has the formulas.
struct SamplingParams {
  float temperature = 1.0f;  // >= 0; 0 takes the most likely token (the lowest id on ties)
  int32_t top_k = 0;         // 0: off; otherwise keep the k most likely
  float top_p = 1.0f;        // (0, 1]; smallest set of most likely tokens that reaches this mass
  float min_p = 0.0f;        // [0, 1]; drop tokens below this share of the most likely one
  uint64_t seed = 0;  // key of the random stream; always set before a request reaches the core
  int32_t num_logprobs = -1;  // -1: none; 0: of the chosen token; k: and of the k most likely

  bool greedy() const { return temperature == 0.0f; }
  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

// INVALID_ARGUMENT naming the field, its value and its limit; NaN and infinity are out of range.
absl::Status Validate(const SamplingParams& params, int32_t max_logprobs = kMaxTopLogprobs);

}  // namespace octavo

#endif  // OCTAVO_COMMON_SAMPLING_PARAMS_H_
