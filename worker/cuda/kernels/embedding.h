// Rows of the embedding table as fp32 activations.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_EMBEDDING_H_
#define OCTAVO_WORKER_CUDA_KERNELS_EMBEDDING_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "common/dtype.h"

namespace octavo::cuda {

// out[r] = scale * table[token_ids[r] - first_token]. All pointers are device memory; strides are
// in elements.
struct EmbeddingArgs {
  const uint16_t* table = nullptr;  // of `type`, [table_rows, cols]
  int64_t table_stride = 0;
  int32_t table_rows = 0;
  // Of a table with a part of the vocabulary: the token of its first row. Tokens of the vocabulary
  // that it lacks, which another rank has, become zeros.
  int32_t first_token = 0;
  int32_t vocabulary = 0;  // tokens in all
  // [rows]; -1 - i stands for sampled[i]. The row of an id outside the vocabulary, or of a place
  // outside `sampled`, becomes NaN, so that sampling from what follows is an error and not a token.
  const int32_t* token_ids = nullptr;
  float scale = 1.0f;
  float* out = nullptr;  // [rows, cols]
  int64_t out_stride = 0;
  int32_t rows = 0;
  int32_t cols = 0;
  const int32_t* sampled = nullptr;  // [num_sampled], of the step before
  int32_t num_sampled = 0;
  DType type = DType::kBF16;  // or kF16
};

// INVALID_ARGUMENT with value and limit, of rows 65,535.
absl::Status LaunchEmbedding(const EmbeddingArgs& args, cudaStream_t stream);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_EMBEDDING_H_
