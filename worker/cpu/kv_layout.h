// Where an element of K or V lies inside a block and layer of the CPU's pool.
//
//   pool   [block][layer of the block][kv_head] pieces; a piece is K of the block's tokens, then V,
//          then for int8 the fp16 scales of K and of V, one per token
//   K      [group of up to 16 tokens] transposed, so that 16 scores are one vector and need no
//          sum across lanes: fp32, fp16, int8 [d][token]; bf16, fp8 [d / 2][token][2], because a
//          pair widens with one shift or one mask per element
//   V      [token] rows; rows of bf16 and fp8 interleave d and d + 16 of each 32 for the same
//          reason, and keep the rest of the row (head_dim % 32) plain
//
// Blocks of 8 tokens have groups of 8.
#ifndef OCTAVO_WORKER_CPU_KV_LAYOUT_H_
#define OCTAVO_WORKER_CPU_KV_LAYOUT_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/cache_geometry.h"
#include "common/dtype.h"

namespace octavo {

inline constexpr int32_t kMaxHeadDim = 256;

// A value; REQUIRES nothing of the pool. Offsets are in bytes.
class KvLayout {
 public:
  // INVALID_ARGUMENT for a head_dim that is not a multiple of 8 up to kMaxHeadDim.
  static absl::StatusOr<KvLayout> Create(const CacheGeometry& geometry) {
    const int32_t head_dim = geometry.shape().head_dim;
    if (head_dim % 8 != 0 || head_dim > kMaxHeadDim)
      return absl::InvalidArgumentError(absl::StrCat(
          "head_dim is ", head_dim, "; the CPU backend needs a multiple of 8 up to ", kMaxHeadDim));
    KvLayout layout;
    layout.dtype_ = geometry.dtype();
    layout.element_bytes_ = static_cast<int32_t>(StorageBytes(geometry.dtype(), 1));
    layout.paired_ = geometry.dtype() == DType::kBF16 || geometry.dtype() == DType::kF8E4M3 ||
                     geometry.dtype() == DType::kF8E5M2;
    layout.head_dim_ = head_dim;
    layout.block_size_ = geometry.block_size();
    layout.piece_bytes_ = geometry.bytes_per_layer_block() / geometry.shape().num_kv_heads;
    layout.layer_stride_ = geometry.bytes_per_layer_block();
    layout.block_stride_ = geometry.bytes_per_block();
    return layout;
  }

  DType dtype() const { return dtype_; }
  int32_t head_dim() const { return head_dim_; }
  int32_t block_size() const { return block_size_; }
  int32_t group_tokens() const { return std::min(block_size_, 16); }
  // Elements that lie side by side: d and d + 1 of K, d and d + 16 of V.
  bool paired() const { return paired_; }

  int64_t block_stride() const { return block_stride_; }
  // From the start of a block to the piece of one of its layers (LayerPlace::index) and a KV head.
  int64_t PieceOffset(int32_t layer, int32_t kv_head) const {
    return layer * layer_stride_ + kv_head * piece_bytes_;
  }
  // From the start of a piece to element d of the token in `slot` (0 .. block_size - 1).
  int64_t KeyOffset(int32_t slot, int32_t d) const {
    const int64_t tokens = group_tokens();
    const int64_t group = slot / tokens * tokens * head_dim_;
    const int64_t token = slot % tokens;
    if (paired_) return element_bytes_ * (group + (d / 2 * tokens + token) * 2 + d % 2);
    return element_bytes_ * (group + d * tokens + token);
  }
  int64_t ValueOffset(int32_t slot, int32_t d) const {
    int64_t column = d;
    if (paired_ && d < head_dim_ / 32 * 32) column = d / 32 * 32 + d % 16 * 2 + d % 32 / 16;
    return value_begin() + element_bytes_ * (int64_t{slot} * head_dim_ + column);
  }
  int64_t value_begin() const { return int64_t{block_size_} * head_dim_ * element_bytes_; }
  // Of int8: from the start of a piece to the scale of the token in `slot`.
  int64_t KeyScaleOffset(int32_t slot) const { return 2 * value_begin() + 2 * slot; }
  int64_t ValueScaleOffset(int32_t slot) const { return KeyScaleOffset(block_size_ + slot); }

 private:
  DType dtype_ = DType::kBF16;
  bool paired_ = true;
  int32_t element_bytes_ = 2;
  int32_t head_dim_ = 0;
  int32_t block_size_ = 0;
  int64_t piece_bytes_ = 0;
  int64_t layer_stride_ = 0;
  int64_t block_stride_ = 0;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_KV_LAYOUT_H_
