// Compiled for x86-64-v4; reached only on CPUs that have it.
#include "worker/cpu/matmul_impl.h"

static_assert(OCTAVO_SIMD_AVX512, "compile this file with -march=x86-64-v4");

namespace octavo {

const MatmulKernels& MatmulKernelsAvx512() { return OCTAVO_SIMD::kKernels; }

}  // namespace octavo
