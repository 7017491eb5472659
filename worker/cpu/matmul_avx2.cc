// Compiled for x86-64-v3.
#include "worker/cpu/matmul_impl.h"

namespace octavo {

const MatmulKernels& MatmulKernelsAvx2() { return OCTAVO_SIMD::kKernels; }

}  // namespace octavo
