// Shared memory: one array after another out of a launch's dynamic bytes. The emulated build puts
// watched gaps between them.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_SMEM_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_SMEM_CUH_

#include <cstddef>

namespace octavo::cuda {

// All threads of a block take the same arrays in the same order. The host computes the bytes of a
// launch with one function beside the kernel.
class Smem {
 public:
  // Uninitialised. `align` is a power of two up to 1024.
  template <class T>
  __device__ __forceinline__ T* take(int count, int align = 16) {
#ifdef OCTAVO_EMULATION
    return static_cast<T*>(
        emulation::TakeShared(static_cast<size_t>(count) * sizeof(T), static_cast<size_t>(align)));
#else
    extern __shared__ __align__(1024) unsigned char octavo_shared_bytes[];
    offset_ = (offset_ + align - 1) & ~(align - 1);
    T* array = reinterpret_cast<T*>(octavo_shared_bytes + offset_);
    offset_ += count * static_cast<int>(sizeof(T));
    return array;
#endif
  }

 private:
#ifndef OCTAVO_EMULATION
  int offset_ = 0;
#endif
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_SMEM_CUH_
