// The online softmax of attention in base 2: Milakov and Gimelshein, Online normalizer calculation
// for softmax (2018). Rows that have seen nothing, or only scores of -inf, are handled here and
// nowhere else: their maximum is -inf, all their weights are 0, and so is their result. A NaN or
// +inf among the scores makes the result NaN.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_ONLINE_SOFTMAX_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_ONLINE_SOFTMAX_CUH_

#include <cmath>

#include "worker/cuda/kernels/ptx.cuh"

namespace octavo::cuda {

// What 2^x is taken relative to: the maximum, or 0 while that is -inf.
__device__ __forceinline__ float SoftmaxReference(float maximum) {
  return maximum == -INFINITY ? 0.0f : maximum;
}

// Weight, relative to `reference`, of what was summed under `maximum`.
__device__ __forceinline__ float SoftmaxWeight(float maximum, float reference) {
  return ptx::exp2(maximum - reference);
}

// A row's sum of p v over its sum of p.
__device__ __forceinline__ float Normalised(float weighted, float sum) {
  return sum == 0.0f ? 0.0f : weighted / sum;
}

// Over the lanes whose numbers differ in bits kFrom to kTo / 2, powers of two; all of them get the
// result.
template <int kFrom, int kTo>
__device__ __forceinline__ float LanesMax(float value) {
#pragma unroll
  for (int lanes = kFrom; lanes < kTo; lanes <<= 1)
    value = fmaxf(value, __shfl_xor_sync(~0u, value, lanes));
  return value;
}
template <int kFrom, int kTo>
__device__ __forceinline__ float LanesSum(float value) {
#pragma unroll
  for (int lanes = kFrom; lanes < kTo; lanes <<= 1) value += __shfl_xor_sync(~0u, value, lanes);
  return value;
}

// A row's softmax so far, as one of the lanes that share the row has it.
struct RunningSoftmax {
  float maximum;  // of all lanes' positions
  float sum;      // of this lane's

  static __device__ __forceinline__ RunningSoftmax Empty() { return {-INFINITY, 0.0f}; }
  // Takes in the maximum of further scores, whose weights are relative to the reference that this
  // returns. `earlier`: the weight of what was summed before, the sum here included already.
  __device__ __forceinline__ float Raise(float candidate, float* earlier) {
    const float raised = fmaxf(candidate, maximum);
    const float reference = SoftmaxReference(raised);
    *earlier = SoftmaxWeight(maximum, reference);
    maximum = raised;
    sum *= *earlier;
    return reference;
  }
};

// Scores in base 2: s = q k scale log2(e), or c tanh(q k scale / c) log2(e) under a cap c.
struct ScoreScale {
  float factor;  // of q k
  float cap;     // c log2(e); 0: none

  __device__ __forceinline__ float operator()(float qk) const {
    const float score = qk * factor;
    if (cap == 0.0f) return score;
    // tanh(x) = 1 - 2 / (e^2x + 1): off by some 1e-7 absolutely, which is what counts after c.
    const float power = ptx::exp2(score * 2.8853900817779268f);
    return cap * (1.0f - __fdividef(2.0f, power + 1.0f));
  }
};

// `softcap` 0: none. `factor`: of the fragments of K (Element::kFactor).
inline ScoreScale MakeScoreScale(float scale, float softcap, float factor) {
  constexpr float kLog2E = 1.44269504088896341f;
  if (softcap > 0) return {scale * factor / softcap, softcap * kLog2E};
  return {scale * factor * kLog2E, 0.0f};
}

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_ONLINE_SOFTMAX_CUH_
