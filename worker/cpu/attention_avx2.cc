#include "worker/cpu/attention_kernel_impl.h"

namespace octavo {

AttentionKernel AttentionKernelAvx2(KvElement element) { return simd_avx2::KernelFor(element); }

}  // namespace octavo
