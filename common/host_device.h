// Marks functions that kernels call too: nvcc wants to be told, other compilers do not know how.
#ifndef OCTAVO_COMMON_HOST_DEVICE_H_
#define OCTAVO_COMMON_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define OCTAVO_HOST_DEVICE __host__ __device__
#else
#define OCTAVO_HOST_DEVICE
#endif

#endif  // OCTAVO_COMMON_HOST_DEVICE_H_
