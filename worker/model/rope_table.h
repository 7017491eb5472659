// Cosines and sines of rotary position embeddings: Su et al., RoFormer (2021), and the scalings by
// which models stretch their context.
#ifndef OCTAVO_WORKER_MODEL_ROPE_TABLE_H_
#define OCTAVO_WORKER_MODEL_ROPE_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/model_config.h"

namespace octavo {

// Radians per position of each rotated pair, [rotary_dim / 2], scaling applied:
//   none, linear   theta^(-2i/d), divided by `factor` for linear
//   llama3         long wavelengths divided by `factor`, short ones kept, a ramp between
//   (Llama 3.1) yarn           the same idea with a ramp over pair indices: Peng et al., YaRN
//   (2023), section 3.2
// then divided by the checkpoint's own frequency factors. INVALID_ARGUMENT naming the field when a
// parameter makes no sense.
absl::StatusOr<std::vector<double>> InverseFrequencies(const RopeConfig& rope);

// cos and sin of positions [0, max_positions): [max_positions, rotary_dim / 2, 2]. Computed in
// double precision and rounded once. YaRN's attention factor multiplies both.
absl::StatusOr<std::vector<float>> CosSinTable(const RopeConfig& rope, int32_t max_positions);

}  // namespace octavo

#endif  // OCTAVO_WORKER_MODEL_ROPE_TABLE_H_
