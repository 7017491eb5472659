// The language and the built-ins of CUDA C++ for g++: the first include of a kernel source in an
// emulated build (OctavoEmulation.cmake).
#ifndef OCTAVO_TESTS_EMULATION_CUDA_SHIM_H_
#define OCTAVO_TESTS_EMULATION_CUDA_SHIM_H_

#define OCTAVO_EMULATION 1

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tests/emulation/emulation.h"

// The toolkit's headers have already made __global__, __device__, __host__ and __constant__ empty.
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
#undef __cluster_dims__
#define __cluster_dims__(...)
#ifndef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#endif
#undef __shared__
#define __shared__ thread_local  // in block scope this implies static. Smem::take sees more
#undef __noinline__              // as a macro it breaks libstdc++'s __attribute__((__noinline__))
#define threadIdx (::octavo::emulation::current->thread_index)
#define blockIdx (::octavo::emulation::current->block_index)
#define blockDim (::octavo::emulation::current->block_dim)
#define gridDim (::octavo::emulation::current->grid_dim)
static constexpr int warpSize = 32;

#define OCTAVO_EMU ::octavo::emulation
#define OCTAVO_HERE OCTAVO_EMULATION_HERE

inline void __syncthreads(OCTAVO_HERE) { OCTAVO_EMU::Barrier(0, 0, here); }
inline void __syncwarp(uint32_t mask = ~0u, OCTAVO_HERE) {
  OCTAVO_EMU::Collective("__syncwarp", mask, nullptr, nullptr, true, here);
}
#define OCTAVO_SHUFFLE(name, kind, by_type)                                                     \
  template <class T>                                                                            \
  T name(uint32_t mask, T value, by_type by, int width = 32, OCTAVO_HERE) {                     \
    return OCTAVO_EMU::FromBits<T>(OCTAVO_EMU::ShuffleWord(OCTAVO_EMU::Shuffle::kind, mask,     \
                                                           OCTAVO_EMU::ToBits(value),           \
                                                           static_cast<int>(by), width, here)); \
  }
OCTAVO_SHUFFLE(__shfl_sync, kIndex, int)
OCTAVO_SHUFFLE(__shfl_up_sync, kUp, unsigned)
OCTAVO_SHUFFLE(__shfl_down_sync, kDown, unsigned)
OCTAVO_SHUFFLE(__shfl_xor_sync, kXor, int)
#undef OCTAVO_SHUFFLE
inline uint32_t __ballot_sync(uint32_t mask, int predicate, OCTAVO_HERE) {
  return OCTAVO_EMU::VoteWord(OCTAVO_EMU::Vote::kBallot, mask, predicate != 0, here);
}
inline int __any_sync(uint32_t mask, int predicate, OCTAVO_HERE) {
  return static_cast<int>(OCTAVO_EMU::VoteWord(OCTAVO_EMU::Vote::kAny, mask, predicate != 0, here));
}
inline int __all_sync(uint32_t mask, int predicate, OCTAVO_HERE) {
  return static_cast<int>(OCTAVO_EMU::VoteWord(OCTAVO_EMU::Vote::kAll, mask, predicate != 0, here));
}
inline uint32_t __match_any_sync(uint32_t mask, uint32_t value, OCTAVO_HERE) {
  return OCTAVO_EMU::VoteWord(OCTAVO_EMU::Vote::kMatch, mask, value, here);
}
inline uint32_t __activemask() { return OCTAVO_EMU::ActiveMask(); }
#define OCTAVO_REDUCE(name, type, kind)                                                   \
  inline type name(uint32_t mask, type value, OCTAVO_HERE) {                              \
    return static_cast<type>(OCTAVO_EMU::ReduceWord(OCTAVO_EMU::Reduce::kind, mask,       \
                                                    static_cast<uint32_t>(value), here)); \
  }
OCTAVO_REDUCE(__reduce_add_sync, uint32_t, kAdd)
OCTAVO_REDUCE(__reduce_min_sync, uint32_t, kMinUnsigned)
OCTAVO_REDUCE(__reduce_max_sync, uint32_t, kMaxUnsigned)
OCTAVO_REDUCE(__reduce_add_sync, int, kAdd)
OCTAVO_REDUCE(__reduce_min_sync, int, kMin)
OCTAVO_REDUCE(__reduce_max_sync, int, kMax)
OCTAVO_REDUCE(__reduce_and_sync, uint32_t, kAnd)
OCTAVO_REDUCE(__reduce_or_sync, uint32_t, kOr)
OCTAVO_REDUCE(__reduce_xor_sync, uint32_t, kXor)
#undef OCTAVO_REDUCE

inline void __threadfence() { OCTAVO_EMU::Fence(true); }
inline void __threadfence_block() { OCTAVO_EMU::Fence(false); }
inline void __threadfence_system() { OCTAVO_EMU::Fence(true); }
inline void __nanosleep(unsigned, OCTAVO_HERE) { OCTAVO_EMU::Yield(here); }
inline long long clock64() {
  static thread_local long long ticks;
  return ++ticks;
}
inline void __trap() { OCTAVO_EMU::Fail("__trap()"); }

template <class T>
inline T __ldg(const T* p) {
  return *p;
}
template <class T>
inline T __ldcs(const T* p) {
  return *p;
}
template <class T>
inline T __ldcg(const T* p) {
  return *p;
}
template <class T>
inline T __ldlu(const T* p) {
  return *p;
}
template <class T>
inline void __stcs(T* p, T v) {
  *p = v;
}
template <class T>
inline void __stcg(T* p, T v) {
  *p = v;
}
#define OCTAVO_ATOMIC(name, expression)                                            \
  template <class T>                                                               \
  T name(T* p, std::common_type_t<T> v) {                                          \
    return OCTAVO_EMU::ReadModifyWrite(p, [=](T old) -> T { return expression; }); \
  }
OCTAVO_ATOMIC(atomicAdd, static_cast<T>(old + v))
OCTAVO_ATOMIC(atomicSub, static_cast<T>(old - v))
OCTAVO_ATOMIC(atomicMax, old > v ? old : v)
OCTAVO_ATOMIC(atomicMin, old < v ? old : v)
OCTAVO_ATOMIC(atomicExch, (static_cast<void>(old), v))
OCTAVO_ATOMIC(atomicAnd, static_cast<T>(old& v))
OCTAVO_ATOMIC(atomicOr, static_cast<T>(old | v))
OCTAVO_ATOMIC(atomicXor, static_cast<T>(old ^ v))
#undef OCTAVO_ATOMIC
template <class T>
T atomicCAS(T* p, std::common_type_t<T> expected, std::common_type_t<T> v) {
  return OCTAVO_EMU::ReadModifyWrite(p, [=](T old) { return old == expected ? v : old; });
}
inline unsigned atomicInc(unsigned* p, unsigned limit) {
  return OCTAVO_EMU::ReadModifyWrite(p, [=](unsigned old) { return old >= limit ? 0u : old + 1; });
}

inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __saturatef(float x) { return x > 0 ? (x > 1 ? 1.0f : x) : 0.0f; }
inline int __float2int_rn(float x) { return static_cast<int>(nearbyintf(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline int __float_as_int(float x) { return OCTAVO_EMU::FromBits<int>(OCTAVO_EMU::ToBits(x)); }
inline uint32_t __float_as_uint(float x) { return static_cast<uint32_t>(OCTAVO_EMU::ToBits(x)); }
inline float __int_as_float(int x) { return OCTAVO_EMU::FromBits<float>(OCTAVO_EMU::ToBits(x)); }
inline float __uint_as_float(uint32_t x) { return OCTAVO_EMU::FromBits<float>(x); }
inline long long __double_as_longlong(double x) {
  return OCTAVO_EMU::FromBits<long long>(OCTAVO_EMU::ToBits(x));
}
inline double __longlong_as_double(long long x) {
  return OCTAVO_EMU::FromBits<double>(OCTAVO_EMU::ToBits(x));
}
inline int __popc(uint32_t x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<uint32_t>(x)) : 32; }
inline int __clzll(long long x) {
  return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}
inline int __ffs(int x) { return __builtin_ffs(x); }
inline uint32_t __brev(uint32_t x) {
  uint32_t reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}
inline uint32_t __umulhi(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((uint64_t{a} * b) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(a) * b) >> 64);
}
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<uint32_t>(bytes >> (8 * (selector >> 4 * i & 7)) & 255) << 8 * i;
  return result;
}
inline uint32_t __funnelshift_l(uint32_t low, uint32_t high, uint32_t shift) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) << (shift & 31) >> 32);
}
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t shift) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (shift & 31));
}
#define OCTAVO_MIN_MAX(type)                                \
  inline type min(type a, type b) { return b < a ? b : a; } \
  inline type max(type a, type b) { return a < b ? b : a; }
OCTAVO_MIN_MAX(int)
OCTAVO_MIN_MAX(unsigned)
OCTAVO_MIN_MAX(long)
OCTAVO_MIN_MAX(unsigned long)
OCTAVO_MIN_MAX(long long)
OCTAVO_MIN_MAX(unsigned long long)
#undef OCTAVO_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

#undef OCTAVO_EMU
#undef OCTAVO_HERE

#endif  // OCTAVO_TESTS_EMULATION_CUDA_SHIM_H_
