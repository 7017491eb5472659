// Eight consecutive elements of a row at a time: with 16-byte accesses where the whole row allows
// them, element by element where it does not.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_ROW_ACCESS_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_ROW_ACCESS_CUH_

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::cuda {

inline constexpr int kRowStep = 8;  // elements of one thread's access

// The first `count` of eight floats; the others are 0. kVector REQUIRES a 16-byte aligned pointer
// and eight floats.
template <bool kVector>
__device__ __forceinline__ void LoadFloats(const float* p, int count, float (&v)[kRowStep]) {
  if constexpr (kVector) {
    const float4 low = *reinterpret_cast<const float4*>(p);
    const float4 high = *reinterpret_cast<const float4*>(p + 4);
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
    v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
  } else {
#pragma unroll
    for (int i = 0; i < kRowStep; ++i) v[i] = i < count ? p[i] : 0.0f;
  }
}

template <bool kVector>
__device__ __forceinline__ void StoreFloats(float* p, int count, const float (&v)[kRowStep]) {
  if constexpr (kVector) {
    *reinterpret_cast<float4*>(p) = make_float4(v[0], v[1], v[2], v[3]);
    *reinterpret_cast<float4*>(p + 4) = make_float4(v[4], v[5], v[6], v[7]);
  } else {
#pragma unroll
    for (int i = 0; i < kRowStep; ++i)
      if (i < count) p[i] = v[i];
  }
}

// To the nearest bf16, ties to even.
__device__ __forceinline__ uint32_t Bf16Bits(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

template <bool kVector>
__device__ __forceinline__ void StoreBf16(uint16_t* p, int count, const float (&v)[kRowStep]) {
  if constexpr (kVector) {
    uint4 packed;
    packed.x = Bf16Bits(v[0]) | Bf16Bits(v[1]) << 16;
    packed.y = Bf16Bits(v[2]) | Bf16Bits(v[3]) << 16;
    packed.z = Bf16Bits(v[4]) | Bf16Bits(v[5]) << 16;
    packed.w = Bf16Bits(v[6]) | Bf16Bits(v[7]) << 16;
    *reinterpret_cast<uint4*>(p) = packed;
  } else {
#pragma unroll
    for (int i = 0; i < kRowStep; ++i)
      if (i < count) p[i] = static_cast<uint16_t>(Bf16Bits(v[i]));
  }
}

template <bool kVector>
__device__ __forceinline__ void LoadBf16(const uint16_t* p, int count, float (&v)[kRowStep]) {
  if constexpr (kVector) {
    const uint4 packed = *reinterpret_cast<const uint4*>(p);
    const uint32_t pairs[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[2 * i] = __uint_as_float(pairs[i] << 16);
      v[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kRowStep; ++i)
      v[i] = i < count ? __uint_as_float(static_cast<uint32_t>(p[i]) << 16) : 0.0f;
  }
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_ROW_ACCESS_CUH_
