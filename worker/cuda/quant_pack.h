// Repacks the 4-bit and 8-bit weights of checkpoints for the device (kernels/quant_layout.h).
#ifndef OCTAVO_WORKER_CUDA_QUANT_PACK_H_
#define OCTAVO_WORKER_CUDA_QUANT_PACK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/dtype.h"
#include "worker/backend/tensor_view.h"
#include "worker/cuda/kernels/quant_layout.h"

namespace octavo::cuda {

// The format that holds rows of all parts. nullopt when a part's type has none: floats, and Q6_K,
// whose scales are of 16 columns. Codes are kept as they are, so weights are exact but for Q4_K and
// Q5_K, whose scales and minima are products that are rounded to fp16 (2^-11 of each). Four bits
// for Q4_0, and for Q4_1 and Q4_K; eight for all else and for what mixes these two kinds.
std::optional<QuantFormat> QuantFormatOf(const std::vector<WeightView>& parts);

// Writes units [first, first + count) of the stacked rows. REQUIRES: `format` is of these parts;
// columns are whole groups.
void PackQuantUnits(const std::vector<WeightView>& parts, QuantFormat format, int64_t first,
                    int64_t count, std::byte* out);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_QUANT_PACK_H_
