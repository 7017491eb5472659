// Passes of a block of threads over one row of logits: radix selection without a sort, and finding
// the token at which a running sum arrives. All amounts are whole numbers, so sums are exact in any
// order, and atomics leave no trace of theirs.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_SAMPLING_SCAN_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_SAMPLING_SCAN_CUH_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "worker/backend/sampling_math.h"
#include "worker/cuda/kernels/plant.cuh"
#include "worker/cuda/kernels/warp.cuh"

namespace octavo::cuda {

inline constexpr int kSampleThreads = 512;
inline constexpr int kSampleWarps = kSampleThreads / 32;
// 32 bits of a key in digits of 11, 11 and 10.
inline constexpr int kDigits = 2048;

using Amount = unsigned long long;  // the type that 64-bit atomicAdd takes

// Shared memory of a row.
struct RowScratch {
  Amount* digits;  // [kDigits]
  Amount* warps;   // [kSampleWarps]
  Amount* found;   // [3]
};

// Of the block's values, in every thread. scratch.warps may be written after the next barrier.
__device__ __forceinline__ Amount RowSum(Amount value, const RowScratch& scratch) {
  return BlockSum(value, scratch.warps);
}
// The same, and scratch.warps may be written at once.
__device__ __forceinline__ Amount RowMax(Amount value, const RowScratch& scratch) {
  const Amount most = BlockMax(value, scratch.warps);
  OCTAVO_UNLESS_PLANTED("sampling.max_read", __syncthreads());
  return most;
}

// Lane i gets the sum of lanes 0 to i.
__device__ __forceinline__ Amount WarpInclusiveSum(Amount value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int by = 1; by < kWarpSize; by *= 2) {
    const Amount below = __shfl_up_sync(kAllLanes, value, by);
    if (lane >= by) value += below;
  }
  return value;
}

struct LogitRow {
  const float* logits;
  int vocabulary;
  bool vector;  // 16-byte loads are legal
};

// visit(token, logit) of the thread's share of the row.
template <typename Visit>
__device__ __forceinline__ void ForEachLogit(const LogitRow& row, Visit visit) {
  int first = 0;
  if (row.vector) {
    first = row.vocabulary / 4 * 4;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) * 4; i < first; i += kSampleThreads * 4) {
      const float4 four = *reinterpret_cast<const float4*>(row.logits + i);
      visit(i, four.x);
      visit(i + 1, four.y);
      visit(i + 2, four.z);
      visit(i + 3, four.w);
    }
  }
  for (int i = first + static_cast<int>(threadIdx.x); i < row.vocabulary; i += kSampleThreads)
    visit(i, row.logits[i]);
}

// Where a sum over tokens, added from the largest key down, arrives at what was wanted.
struct Cut {
  uint32_t key;   // of the tokens there
  Amount before;  // the sum of larger keys, less than wanted
  Amount at;      // the sum of this key
};

// amount(token, logit): whole numbers; 0 leaves a token out. REQUIRES: wanted in [1, the sum].
template <typename AmountOf>
__device__ Cut SelectCut(const LogitRow& row, Amount wanted, AmountOf amount,
                         const RowScratch& scratch) {
  Cut cut = {0, 0, 0};
  int above = 32;  // bits of the key not yet known
  for (int pass = 0; pass < 3; ++pass) {
    const int bits = pass < 2 ? 11 : 10;
    const int shift = above - bits;
    const int digits = 1 << bits;
    for (int i = static_cast<int>(threadIdx.x); i < digits; i += kSampleThreads)
      scratch.digits[i] = 0;
    OCTAVO_UNLESS_PLANTED("sampling.digits_cleared", __syncthreads());
    ForEachLogit(row, [&](int token, float logit) {
      const uint32_t key = OrderedBits(logit);
      if (pass > 0 && key >> above != cut.key) return;
      const Amount value = amount(token, logit);
      if (value != 0) atomicAdd(scratch.digits + (key >> shift & (digits - 1)), value);
    });
    OCTAVO_UNLESS_PLANTED("sampling.digits_counted", __syncthreads());
    // Thread t has digits [last - own + 1, last], from the largest down; so has the scan.
    const int own = digits / kSampleThreads;
    const int last = digits - 1 - static_cast<int>(threadIdx.x) * own;
    Amount sum = 0;
    for (int i = 0; i < own; ++i) sum += scratch.digits[last - i];
    const Amount inclusive = WarpInclusiveSum(sum);
    if (threadIdx.x % 32 == 31) scratch.warps[threadIdx.x / 32] = inclusive;
    OCTAVO_UNLESS_PLANTED("sampling.warps_scanned", __syncthreads());
    Amount before = cut.before + inclusive - sum;
    for (int warp = 0; warp < static_cast<int>(threadIdx.x) / 32; ++warp)
      before += scratch.warps[warp];
    if (before < wanted && wanted <= before + sum) {  // in one thread
      int digit = last;
      while (before + scratch.digits[digit] < wanted) before += scratch.digits[digit--];
      scratch.found[0] = static_cast<Amount>(digit);
      scratch.found[1] = before;
      scratch.found[2] = scratch.digits[digit];
    }
    OCTAVO_UNLESS_PLANTED("sampling.digit_found", __syncthreads());
    cut.key = cut.key << bits | static_cast<uint32_t>(scratch.found[0]);
    cut.before = scratch.found[1];
    cut.at = scratch.found[2];
    above = shift;
  }
  return cut;
}

// Tokens [begin, end) in kSampleWarps chunks of `chunk` tokens, the last ones shorter or empty.
struct TokenChunks {
  int begin;
  int end;
  int chunk;

  __device__ TokenChunks(int first, int last) : begin(first), end(last) {
    chunk = ((last - first + kSampleWarps - 1) / kSampleWarps + 31) / 32 * 32;
  }
};

// Leaves each chunk's sum in scratch.warps and returns the total. Whoever reads scratch.warps has
// to pass a barrier before it is written again.
template <typename AmountOf>
__device__ Amount SumChunks(const LogitRow& row, const TokenChunks& chunks, AmountOf amount,
                            const RowScratch& scratch) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int first = chunks.begin + warp * chunks.chunk;
  const int end = min(first + chunks.chunk, chunks.end);
  Amount sum = 0;
#pragma unroll 4
  for (int i = first + static_cast<int>(threadIdx.x) % 32; i < end; i += 32)
    sum += amount(i, row.logits[i]);
  sum = WarpSum(sum);
  if (threadIdx.x % 32 == 0) scratch.warps[warp] = sum;
  OCTAVO_UNLESS_PLANTED("sampling.chunks_summed", __syncthreads());
  Amount total = 0;
  for (int i = 0; i < kSampleWarps; ++i) total += scratch.warps[i];
  return total;
}

// The first token, in order of id, with which the running sum exceeds `target`. REQUIRES: that
// SumChunks has just left the chunks' sums, and that their total is above target. Narrows the range
// by kSampleWarps per pass: 128k tokens are 8k, 512, 32.
template <typename AmountOf>
__device__ int FindInChunks(const LogitRow& row, TokenChunks chunks, Amount target, AmountOf amount,
                            const RowScratch& scratch) {
  for (;;) {
    int warp = 0;
    while (warp < kSampleWarps - 1 && target >= scratch.warps[warp])
      target -= scratch.warps[warp++];
    OCTAVO_UNLESS_PLANTED("sampling.chunks_read", __syncthreads());
    const int first = chunks.begin + warp * chunks.chunk;
    chunks = TokenChunks(first, min(first + chunks.chunk, chunks.end));
    if (chunks.end - chunks.begin <= 32) break;
    SumChunks(row, chunks, amount, scratch);
  }
  // Every warp does the same with the last 32.
  const int token = chunks.begin + static_cast<int>(threadIdx.x) % 32;
  const Amount running =
      WarpInclusiveSum(token < chunks.end ? amount(token, row.logits[token]) : Amount{0});
  const uint32_t beyond = __ballot_sync(kAllLanes, running > target);
  return chunks.begin + __ffs(static_cast<int>(beyond)) - 1;
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_SAMPLING_SCAN_CUH_
