#include "tests/emulation/defects.h"

#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/ptx.cuh"
#include "worker/cuda/kernels/smem.cuh"

namespace octavo::cuda {

__global__ void DivergentBarrier(float* data) {
  if (threadIdx.x < 32) {
    data[threadIdx.x] = 1;
    __syncthreads();
  } else {
    data[threadIdx.x] = 2;
    __syncthreads();
  }
}

__global__ void BarrierOfSome(float* data) {
  if (threadIdx.x < 40) __syncthreads();
  data[threadIdx.x] = 1;
}

__global__ void LaneNeverAtShuffle(float* data) {
  if (threadIdx.x == 7 || threadIdx.x >= 32)
    __syncthreads();
  else
    data[threadIdx.x] = __shfl_xor_sync(~0u, 1.0f, 1);
}

__global__ void ShuffleOutsideMask(float* data) {
  if (threadIdx.x < 16) data[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 16);
}

__global__ void ShuffleWithReturned(float* data) {
  if (threadIdx.x >= 20) return;
  data[threadIdx.x] = __shfl_xor_sync(~0u, 1.0f, 1);
}

__global__ void ShuffleAgainstBallot(float* data) {
  if (threadIdx.x & 1)
    data[threadIdx.x] = __shfl_xor_sync(~0u, 1.0f, 1);
  else
    data[threadIdx.x] = static_cast<float>(__ballot_sync(~0u, 1));
}

__global__ void UninitialisedShared(float* data) {
  Smem smem;
  float* array = smem.take<float>(64);
  if (threadIdx.x < 63) array[threadIdx.x] = 1;
  __syncthreads();
  data[threadIdx.x] = array[63 - threadIdx.x];
}

__global__ void MisalignedVector(float* data) {
  if (threadIdx.x < 32) {
    const float4 value = *reinterpret_cast<float4*>(data + threadIdx.x);
    data[threadIdx.x] = value.x;
  }
}

__global__ void OverflowBetweenArrays(float* data) {
  Smem smem;
  float* first = smem.take<float>(63);
  float* second = smem.take<float>(64);
  first[threadIdx.x] = 1;
  second[threadIdx.x] = 2;
  __syncthreads();
  data[threadIdx.x] = first[threadIdx.x & 31] + second[threadIdx.x];
}

__global__ void GlobalOverrun(float* data) { data[threadIdx.x + 1] = 1; }

__global__ void NoCopyWait(float* data) {
  Smem smem;
  float* array = smem.take<float>(256);
  ptx::cp_async16(array + threadIdx.x * 4, data);
  ptx::cp_commit();
  __syncthreads();
  data[threadIdx.x] = array[threadIdx.x * 4];
}

__global__ void SpinsForEver(float* data) {
  const volatile float* watched = data;
  while (*watched != 3.0f) __nanosleep(20);
}

__global__ void TakesTooMuch(float* data) {
  Smem smem;
  float* array = smem.take<float>(4096);
  array[threadIdx.x] = data[0];
}

__global__ void MisalignedMatrixRow(float* data) {
  Smem smem;
  auto* array = smem.take<uint32_t>(512);
  for (int i = static_cast<int>(threadIdx.x); i < 512; i += 64) array[i] = 0;
  __syncthreads();
  uint32_t fragment[4];
  ptx::ldmatrix_x4(fragment, array + (threadIdx.x & 31) * 4 + 2);
  data[threadIdx.x] = static_cast<float>(fragment[0]);
}

__global__ void TwoWriters(float* data) {
  if ((threadIdx.x & 31) == 0) data[0] = static_cast<float>(threadIdx.x);
}

__global__ void ReadThenWritten(float* data) {
  if (threadIdx.x == 0) data[1] = data[0];
  if (threadIdx.x == 32) data[0] = 1;
}

__global__ void WritesAll(float* data) { data[threadIdx.x] = 1; }

absl::Status LaunchDefect(absl::string_view name, float* data, cudaStream_t stream) {
  constexpr struct {
    const char* name;
    void (*kernel)(float*);
  } kKernels[] = {{"divergent barrier", DivergentBarrier},
                  {"barrier reached by some", BarrierOfSome},
                  {"lane never at shuffle", LaneNeverAtShuffle},
                  {"shuffle outside mask", ShuffleOutsideMask},
                  {"shuffle with returned lanes", ShuffleWithReturned},
                  {"shuffle against ballot", ShuffleAgainstBallot},
                  {"uninitialised shared memory", UninitialisedShared},
                  {"misaligned float4", MisalignedVector},
                  {"overflow between arrays", OverflowBetweenArrays},
                  {"global overrun", GlobalOverrun},
                  {"no cp.async wait", NoCopyWait},
                  {"spins for ever", SpinsForEver},
                  {"takes too much", TakesTooMuch},
                  {"misaligned ldmatrix row", MisalignedMatrixRow},
                  {"two writers", TwoWriters},
                  {"read then written", ReadThenWritten},
                  {"writes all", WritesAll}};
  for (const auto& entry : kKernels)
    if (name == entry.name) return Launch(entry.kernel, dim3(1), dim3(64), 4096, stream, data);
  return absl::NotFoundError(name);
}

}  // namespace octavo::cuda
