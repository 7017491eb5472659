// What is measured: the sizes of a real model on a real card, and small ones that an emulated card
// and compute-sanitizer get through.
#ifndef OCTAVO_TESTS_BENCH_CUDA_SIZES_H_
#define OCTAVO_TESTS_BENCH_CUDA_SIZES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/dtype.h"
#include "common/model_shape.h"
#include "tests/bench/cuda/device_timing.h"

namespace octavo::bench {

// Rows of one sequence that are computed now.
struct Chunk {
  int32_t context = 0;  // tokens before the first
  int32_t rows = 1;
};

struct AttentionCase {
  std::string name;
  std::vector<Chunk> chunks;
  int32_t shared_tokens = 0;  // the first ones of every sequence, in common blocks
};

// A cache and the query heads over it, and what is computed with it.
struct AttentionVariant {
  std::string name;
  DType dtype = DType::kBF16;
  int32_t num_heads = 32;
  int32_t num_kv_heads = 8;
  int32_t head_dim = 128;
  std::vector<AttentionCase> cases;
};

struct Sizes {
  std::string name;
  TimingPlan timing;

  int64_t copy_bytes = 0;    // of the ceilings' buffers
  int64_t link_bytes = 0;    // likewise
  int64_t product_size = 0;  // of all three sides

  int32_t block_size = 16;
  // Layers of the pool: calls take turns over them, so none finds the cache of the call before.
  // Halved until the pool fits; not below min_layers.
  int32_t attention_layers = 32;
  int32_t min_attention_layers = 4;
  std::vector<AttentionVariant> attention;

  ModelShape model;                    // of row kernels, products and steps
  std::vector<int32_t> rows;           // of row kernels
  std::vector<int32_t> product_rows;   // of products
  std::vector<int32_t> copied_blocks;  // of block copies
  int64_t rotated_bytes = 0;  // calls of row kernels and products take turns over that much

  std::vector<int32_t> batches;  // of decode steps
  int32_t step_context = 0;
  int32_t prefill_tokens = 0;  // of a prefill step
  int32_t steps = 0;           // samples of each row
  int32_t swapped_blocks = 0;
};

// Sizes of Llama-3-8B on a card with 24 GB and more; what does not fit is skipped, with the bytes.
Sizes FullSizes();
// Seconds on an emulated card: the same rows in kind, of two layers and some hundred tokens.
Sizes SmallSizes();

}  // namespace octavo::bench

#endif  // OCTAVO_TESTS_BENCH_CUDA_SIZES_H_
