// How the decode kernel joins partial results: of the warps of a block through shared memory, of a
// row's splits through device memory by whoever arrives last. Always in one order.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_DECODE_MERGE_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_DECODE_MERGE_CUH_

#include <cstdint>

#include "worker/cuda/kernels/element.cuh"
#include "worker/cuda/kernels/online_softmax.cuh"
#include "worker/cuda/kernels/paged_decode.h"
#include "worker/cuda/kernels/plant.cuh"

namespace octavo::cuda {

// Query heads of one KV head that a block of threads computes.
struct HeadRange {
  int first;
  int count;
};

// Joins `count` results of one head and d in order: [count] of weighted values, and of {maximum,
// sum}, each this many floats apart.
template <class Load>
__device__ __forceinline__ float JoinResults(int count, const float* softmax, int softmax_stride,
                                             const float* weighted, int64_t weighted_stride,
                                             const Load& load, float* maximum, float* sum) {
  float most = -INFINITY;
  for (int i = 0; i < count; ++i) most = fmaxf(most, load(softmax + i * softmax_stride));
  const float reference = SoftmaxReference(most);
  float total = 0.0f, value = 0.0f;
  for (int i = 0; i < count; ++i) {
    const float weight = SoftmaxWeight(load(softmax + i * softmax_stride), reference);
    total += weight * load(softmax + i * softmax_stride + 1);
    value += weight * load(weighted + i * weighted_stride);
  }
  *maximum = most;
  *sum = total;
  return value;
}

// A row's results: where split 0 leaves its partial one, and how many splits there are.
struct RowSplits {
  int row;
  int num_splits;
  int first_partial;
};

// Counts an arrival among a row's splits; true for the last one, which may read what all of them
// have written. REQUIRES: one thread of the block calls this, behind a barrier after the partial
// results of the whole block.
__device__ __forceinline__ bool ArriveLast(uint32_t* arrivals, int num_splits) {
  // After the barrier: releases the partial results of the whole block.
  OCTAVO_UNLESS_PLANTED("paged_decode.release", __threadfence());
  const bool last = atomicAdd(arrivals, 1u) + 1 == static_cast<uint32_t>(num_splits);
  if (last) *arrivals = 0;
  OCTAVO_UNLESS_PLANTED("paged_decode.acquire", __threadfence());
  return last;
}

// The row's result, by all threads of the block that arrived last.
template <DType kType, int kDim, int kThreads>
__device__ __forceinline__ void MergeSplits(const PagedDecodeArgs& args, const RowSplits& splits,
                                            HeadRange heads) {
  // Past the first-level cache: other multiprocessors have written these.
  const auto load = [](const float* place) { return __ldcg(place); };
  for (int e = threadIdx.x; e < heads.count * kDim; e += kThreads) {
    const int64_t partial = int64_t{splits.first_partial} * args.num_heads + heads.first + e / kDim;
    float maximum, sum;
    const float value =
        JoinResults(splits.num_splits, args.partial_softmax + 2 * partial, 2 * args.num_heads,
                    args.partial_out + partial * kDim + e % kDim, int64_t{args.num_heads} * kDim,
                    load, &maximum, &sum);
    args.out[splits.row * args.out_stride + int64_t{heads.first} * kDim + e] =
        Normalised(value, sum) * Element<kType>::kOutputFactor;
  }
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_DECODE_MERGE_CUH_
