// Eight consecutive elements of a row at a time: with 16-byte accesses where the whole row allows
// them, element by element where it does not.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_ROW_ACCESS_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_ROW_ACCESS_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "common/dtype.h"
#include "worker/cuda/kernels/ptx.cuh"

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

// Elements `column` and on of a row as a product reads it: bf16 or fp16 to the nearest, ties to
// even, beyond fp16's 65,504 infinite; or e4m3 codes of `v`, which the caller has scaled.
template <DType kType, bool kVector>
__device__ __forceinline__ void StoreRounded(void* row, int column, int count,
                                             const float (&v)[kRowStep]) {
  if constexpr (kType == DType::kF8E4M3) {
    auto* p = static_cast<uint8_t*>(row) + column;
    const uint2 packed =
        make_uint2(ptx::pack_e4m3(v[0], v[1], v[2], v[3]), ptx::pack_e4m3(v[4], v[5], v[6], v[7]));
    if constexpr (kVector) {
      *reinterpret_cast<uint2*>(p) = packed;
    } else {
#pragma unroll
      for (int i = 0; i < kRowStep; ++i)
        if (i < count) p[i] = static_cast<uint8_t>((i < 4 ? packed.x : packed.y) >> i % 4 * 8);
    }
  } else {
    static_assert(kType == DType::kBF16 || kType == DType::kF16);
    auto* p = static_cast<uint16_t*>(row) + column;
    uint32_t pairs[kRowStep / 2];
#pragma unroll
    for (int i = 0; i < kRowStep / 2; ++i)
      pairs[i] = kType == DType::kBF16 ? ptx::pack_bf16(v[2 * i], v[2 * i + 1])
                                       : ptx::pack_f16(v[2 * i], v[2 * i + 1]);
    if constexpr (kVector) {
      *reinterpret_cast<uint4*>(p) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    } else {
#pragma unroll
      for (int i = 0; i < kRowStep; ++i)
        if (i < count) p[i] = static_cast<uint16_t>(pairs[i / 2] >> i % 2 * 16);
    }
  }
}

// Two bf16 or fp16.
template <DType kType>
__device__ __forceinline__ float2 WidenHalves(uint32_t pair) {
  if constexpr (kType == DType::kBF16) {
    return ptx::unpack_bf16(pair);
  } else {
    return make_float2(__half2float(__ushort_as_half(static_cast<uint16_t>(pair))),
                       __half2float(__ushort_as_half(static_cast<uint16_t>(pair >> 16))));
  }
}

template <DType kType, bool kVector>
__device__ __forceinline__ void LoadHalves(const uint16_t* p, int count, float (&v)[kRowStep]) {
  if constexpr (kVector) {
    const uint4 packed = *reinterpret_cast<const uint4*>(p);
    const uint32_t pairs[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = WidenHalves<kType>(pairs[i]);
      v[2 * i] = pair.x;
      v[2 * i + 1] = pair.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kRowStep; ++i) v[i] = i < count ? WidenHalves<kType>(p[i]).x : 0.0f;
  }
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_ROW_ACCESS_CUH_
