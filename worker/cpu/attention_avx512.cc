#include "worker/cpu/attention_kernel_impl.h"

namespace octavo {

AttentionKernel AttentionKernelAvx512(KvElement element) { return simd_avx512::KernelFor(element); }

}  // namespace octavo
