// Rounding of K and V to the pool's element types: bit for bit what worker/cpu/kv_rounding.h does,
// so that both backends' caches hold the same numbers. To nearest, ties to even; the 8-bit float
// formats are those of the OCP 8-bit Floating Point Specification (revision 1.0, 2023), saturating.
// In integers, because cvt to fp8 needs sm_89 and treats NaN differently.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_KV_ROUNDING_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_KV_ROUNDING_CUH_

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::cuda {

// A NaN keeps its sign and becomes quiet.
__device__ __forceinline__ uint32_t RoundToBfloat(float x) {
  const uint32_t bits = __float_as_uint(x);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return (is_nan ? bits | 0x00400000u : bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

// What fp16 cannot hold becomes infinite; a NaN keeps its sign and the upper bits of its mantissa.
__device__ __forceinline__ uint32_t RoundToHalf(float x) {
  const uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return (bits >> 16 & 0x8000u) | 0x7e00u | (bits >> 13 & 0x03ffu);
  return __half_as_ushort(__float2half_rn(x));
}

// What is too large, infinity included, becomes the largest number. NaN becomes 0x7f with its sign.
template <int kMantissaBits, int kBias>
__device__ __forceinline__ uint32_t RoundToFloat8(float x, float largest) {
  constexpr int kDropped = 23 - kMantissaBits;
  const uint32_t sign = __float_as_uint(x) >> 24 & 0x80u;
  const float magnitude = fminf(fabsf(x), largest);  // largest where x is NaN
  const uint32_t bits = __float_as_uint(magnitude);
  // Normal numbers: cut the mantissa, and move the exponent's bias.
  const uint32_t rounded = bits + ((1u << (kDropped - 1)) - 1) + (bits >> kDropped & 1);
  uint32_t code = (rounded >> kDropped) - (static_cast<uint32_t>(127 - kBias) << kMantissaBits);
  if (bits < static_cast<uint32_t>(128 - kBias) << 23) {
    // Below the smallest normal number: adding 2^23 units of the last place rounds to such units.
    constexpr uint32_t kUnitExponent = 127 + 1 - kBias - kMantissaBits + 23;
    const float units = __uint_as_float(kUnitExponent << 23);
    code = __float_as_uint(__fadd_rn(magnitude, units)) - __float_as_uint(units);
  }
  return (x != x ? 0x7fu : code) | sign;
}

__device__ __forceinline__ uint32_t RoundToE4m3(float x) { return RoundToFloat8<3, 7>(x, 448.0f); }
__device__ __forceinline__ uint32_t RoundToE5m2(float x) {
  return RoundToFloat8<2, 15>(x, 57344.0f);
}

// The fp16 scale of a row whose largest magnitude is `largest`; codes are x / scale.
__device__ __forceinline__ uint32_t Int8Scale(float largest) {
  return __half_as_ushort(__float2half_rn(fminf(__fdiv_rn(largest, 127.0f), 65504.0f)));
}
inline constexpr uint32_t kNanScale = 0x7e00u;  // of a row that holds a NaN

// scale: of Int8Scale, as a float. A row of scale 0 has codes 0.
__device__ __forceinline__ uint32_t RoundToInt8(float x, float scale) {
  const float most = scale > 0 ? 127.0f : 0.0f;
  const float ratio = __fdiv_rn(x, scale > 0 ? scale : 1.0f);
  return static_cast<uint32_t>(__float2int_rn(fmaxf(fminf(ratio, most), -most))) & 0xffu;
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_KV_ROUNDING_CUH_
