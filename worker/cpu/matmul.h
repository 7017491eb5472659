// y = epilogue(norm(x) W^T + b) in f32 arithmetic on exactly dequantised weights.
//
// One float sequence per output element whatever the batch, the rows beside it, the thread count
// and the instruction set (det.2). With q, d, m the stored integers, scales and minima, in groups
// of 32 inputs (16 for Q6_K), ascending:
//   s = 0; for k in the group: s = fma(x_k, q_k, s);  acc = fma(d, s, acc);  acc = fma(m, X, acc)
// X is the group's sum of x, added in one fixed order. Float formats have q = w and acc = acc + s.
#ifndef OCTAVO_WORKER_CPU_MATMUL_H_
#define OCTAVO_WORKER_CPU_MATMUL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/backend/op_params.h"
#include "worker/cpu/claims.h"
#include "worker/cpu/isa.h"
#include "worker/cpu/packed_linear.h"
#include "worker/cpu/thread_pool.h"

namespace octavo {

// How activations enter a product.
enum class ActivationDType {
  kFloat32,
  kBFloat16,  // rounded to nearest even after the norm, then the same arithmetic
  kInt8,      // per row and block of 32 (matmul_int8.h), where the weights' format allows
};

// 64-byte aligned floats that only grow.
class FloatBuffer {
 public:
  // At least `count` floats; contents are lost when it grows.
  float* Reserve(size_t count);
  float* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(float* data) const;
  };
  std::unique_ptr<float[], Free> data_;
  size_t capacity_ = 0;
};

// Working memory of RunLinear, reused from call to call. Owned by the thread that calls it.
class MatmulScratch {
 public:
  struct PerThread {
    FloatBuffer activations;  // one row group, prepared redundantly at small batches
    FloatBuffer arranged;     // a row chunk, where kernels want it in their own order
    FloatBuffer decoded;      // part of one panel as floats
    FloatBuffer sums;         // accumulators of one panel
  };

  FloatBuffer shared;   // prepared activations of a row chunk
  FloatBuffer unfused;  // gate and up of a layer that stores them in different formats
  Claims claims;        // panels: per row chunk and segment, one list per thread
  std::vector<PerThread> threads;
};

// REQUIRES: `isa` runs on this CPU, kInt8 only above kAvx2 with HasVnni(); params.weight is
// `weight`; out overlaps neither x nor weights. INVALID_ARGUMENT with value and limit when shapes
// contradict each other.
absl::Status RunLinear(const PackedLinear& weight, const LinearParams& params,
                       ActivationDType activations, Isa isa, ThreadPool& pool,
                       MatmulScratch& scratch);

// out = x / sqrt(mean(x^2) + eps) * weight, row by row, as RunLinear does it first: 16 partial sums
// of squares, then a fixed tree. x and out may be the same rows.
absl::Status NormalizeRows(const Matrix& x, const RmsNorm& norm, Isa isa, ThreadPool& pool,
                           const Matrix& out);

// out += NormalizeRows(x), which takes x's place. INVALID_ARGUMENT as above.
absl::Status AddNormedRows(const AddNormedParams& params, Isa isa, ThreadPool& pool);

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_MATMUL_H_
