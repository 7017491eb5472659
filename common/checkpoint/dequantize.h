// Stored weights as floats: the plain reference for every storage type. Kernels that read the same
// formats faster are tested against this.
#ifndef OCTAVO_COMMON_CHECKPOINT_DEQUANTIZE_H_
#define OCTAVO_COMMON_CHECKPOINT_DEQUANTIZE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/dtype.h"

namespace octavo {

// IEEE 754 binary16, exactly; subnormals, infinities and NaN included.
float HalfToFloat(uint16_t bits);
float BFloat16ToFloat(uint16_t bits);

// Writes `elements` floats; `src` holds StorageBytes(dtype, elements) bytes at any alignment. Block
// formats: ggml-common.h and ggml-quants.c (dequantize_row_*) of llama.cpp; every result is rounded
// to float once per operation in the order written there. INVALID_ARGUMENT when `elements` is
// negative or no whole number of blocks; UNIMPLEMENTED for kI8, which stores no weights.
absl::Status DequantizeRow(DType dtype, const std::byte* src, int64_t elements, float* out);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_DEQUANTIZE_H_
