// Rounding of K and V to the cache's element types, to nearest even. The 8-bit float formats are
// those of the OCP 8-bit Floating Point Specification (revision 1.0, 2023), saturating.
#ifndef OCTAVO_WORKER_CPU_KV_ROUNDING_H_
#define OCTAVO_WORKER_CPU_KV_ROUNDING_H_

#include <cstdint>

#include "common/dtype.h"

namespace octavo {

// REQUIRES of all: count is a multiple of 8.

// bf16 or fp16; NaN stays NaN, and what fp16 cannot hold becomes infinite.
void RoundToHalves(DType dtype, const float* x, int32_t count, uint16_t* out);

// fp8_e4m3 or fp8_e5m2. What is too large, infinity included, becomes the largest number (448,
// 57,344). NaN becomes the code 0x7f with its sign.
void RoundToFloat8(DType dtype, const float* x, int32_t count, uint8_t* out);

// The scale is the largest magnitude / 127 in fp16, at most its largest number; a code is
// x / scale, rounded and kept within [-127, 127]. Returns the scale's bits. All zeros have scale 0,
// and a NaN among x makes the scale NaN.
uint16_t RoundToInt8(const float* x, int32_t count, int8_t* out);

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_KV_ROUNDING_H_
