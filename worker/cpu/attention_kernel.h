// One tile of paged attention, as attention.cc hands it to the kernel of an instruction set.
//
// Numerics, the same for every tile shape (det.2): score: FMA over d ascending; online softmax over
// windows of 128 positions counted from position 0, merged in order; p = 2^(s - max), scale and
// log2(e) folded into q; the sum of p in 16 lanes (position mod 16); P V: FMA over positions
// ascending. int8: a token's scale multiplies its finished score, and its p after the sum took it.
// Powers of two that some types need (attention_elements.h) change no bit. A position that a row
// does not see has p = 0 exactly and changes no bit, so neither do the rows and windows computed
// beside it.
#ifndef OCTAVO_WORKER_CPU_ATTENTION_KERNEL_H_
#define OCTAVO_WORKER_CPU_ATTENTION_KERNEL_H_

#include <cstddef>
#include <cstdint>

namespace octavo {

// Spelled here because this header is also compiled for AVX-512 (simd16.h).
enum class KvElement { kFloat32, kFloat16, kBFloat16, kInt8, kFloat8E4M3, kFloat8E5M2 };

inline constexpr int32_t kAttentionWindow = 128;  // positions of one softmax step
inline constexpr int32_t kMaxTileRows = 48;       // queries x heads of one tile

// Up to kMaxTileRows rows: `num_queries` consecutive positions x `num_heads` heads of one KV head.
struct AttentionTile {
  const std::byte* piece = nullptr;  // of the layer and KV head in block 0 (kv_layout.h)
  int64_t block_stride = 0;          // bytes
  const int32_t* table = nullptr;    // [table_length] blocks of the sequence
  int32_t table_length = 0;
  int32_t block_size = 0;
  int32_t head_dim = 0;
  int32_t first_position = 0;
  int32_t num_queries = 0;
  int32_t num_heads = 0;
  int32_t sliding_window = 0;  // positions a row sees, itself included; 0: all
  float q_scale = 0;           // scale * log2(e); with a cap scale / softcap
  float score_cap = 0;         // softcap * log2(e); 0: none
  const float* q = nullptr;    // [num_queries][num_heads * head_dim], rows q_stride apart
  int64_t q_stride = 0;
  float* out = nullptr;  // the same shape
  int64_t out_stride = 0;
  float* scratch = nullptr;  // AttentionScratchFloats(head_dim)

  // The tile this thread computes next: its first keys are fetched meanwhile. nullptr: none.
  const AttentionTile* next = nullptr;
};

// q, accumulators, scores; then one window of keys repacked when blocks hold 8 tokens.
constexpr int64_t AttentionScratchFloats(int32_t head_dim) {
  return int64_t{kMaxTileRows} * (2 * (head_dim + 16) + kAttentionWindow) +
         int64_t{kAttentionWindow} * head_dim + 64;
}

using AttentionKernel = void (*)(const AttentionTile& tile);

// REQUIRES: this CPU has the instruction set.
AttentionKernel AttentionKernelAvx2(KvElement element);
AttentionKernel AttentionKernelAvx512(KvElement element);

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_ATTENTION_KERNEL_H_
