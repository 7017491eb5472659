// The step from a group's sum to the row's accumulator, shared by all kernels. Per instruction set.
#ifndef OCTAVO_WORKER_CPU_MATMUL_FOLD_H_
#define OCTAVO_WORKER_CPU_MATMUL_FOLD_H_

#include "worker/cpu/matmul_formats.h"
#include "worker/cpu/simd_bits.h"

namespace octavo::OCTAVO_SIMD {

// acc[16] = acc + s, or fma(d, s, acc), with fma(m, x_sum, ..) on top where there are minima.
template <Scale kScale>
OCTAVO_SIMD_INLINE void Fold(float* acc, Vec s, Vec d, Vec m, const float* x_sum) {
  Vec a = Load(acc);
  if constexpr (kScale == Scale::kNone) {
    a = Add(a, s);
  } else {
    MulAdd(a, d, s);
    if constexpr (kScale == Scale::kScaleMin) MulAdd(a, m, Set1(*x_sum));
  }
  Store(acc, a);
}

}  // namespace octavo::OCTAVO_SIMD

#endif  // OCTAVO_WORKER_CPU_MATMUL_FOLD_H_
