// The kernel table of one instruction set: included by matmul_avx2.cc and matmul_avx512.cc.
#ifndef OCTAVO_WORKER_CPU_MATMUL_IMPL_H_
#define OCTAVO_WORKER_CPU_MATMUL_IMPL_H_

#include "worker/cpu/matmul_direct.h"
#include "worker/cpu/matmul_finish.h"
#include "worker/cpu/matmul_formats.h"
#include "worker/cpu/matmul_kernels.h"
#include "worker/cpu/matmul_prepare.h"
#include "worker/cpu/matmul_tiles.h"
#include "worker/cpu/simd_bits.h"

namespace octavo::OCTAVO_SIMD {

inline void Multiply(const MultiplyTask& task) {
  DispatchFormat(task.format, [&](auto format) OCTAVO_LAMBDA {
    using F = decltype(format);
    if (task.rows <= kDirectRows) {
      MultiplyDirect<F>(task);
    } else {
      MultiplyTiles<F>(task);
    }
  });
}

inline constexpr MatmulKernels kKernels = {
    TileCount, Prepare, nullptr,   nullptr,
    Multiply,  Gate,    Normalize, kDecodeBlocks*(kBlockFloats + kScaleFloats),
};

}  // namespace octavo::OCTAVO_SIMD

#endif  // OCTAVO_WORKER_CPU_MATMUL_IMPL_H_
