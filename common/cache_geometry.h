// Every byte count of the KV cache, computed here and nowhere else (design chapter 6).
#ifndef OCTAVO_COMMON_CACHE_GEOMETRY_H_
#define OCTAVO_COMMON_CACHE_GEOMETRY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/dtype.h"
#include "common/kv_groups.h"

namespace octavo {

// What of a model decides the size of its cache.
struct KvShape {
  int32_t num_layers = 0;
  int32_t num_kv_heads = 0;  // of one rank
  int32_t head_dim = 0;
  // [num_layers] tokens that a position of the layer sees, itself included; 0: all. Empty: all, in
  // every layer.
  std::vector<int32_t> layer_windows;
  friend bool operator==(const KvShape&, const KvShape&) = default;
};

// A block holds the keys and values of block_size tokens in layers_per_block layers. A sequence has
// one block table per group of layers, and a group with a window gives blocks back that the window
// has left (kv.7). A value; copies share what they never change.
class CacheGeometry {
 public:
  CacheGeometry() = default;
  // INVALID_ARGUMENT for a block size other than 8, 16, 32, 64, a dtype the cache has no layout
  // for, a shape that is not positive, or windows that are negative or not one for each layer.
  static absl::StatusOr<CacheGeometry> Create(const KvShape& shape, DType kv_dtype,
                                              int32_t block_size);

  const KvShape& shape() const { return layout_->shape; }
  DType dtype() const { return dtype_; }
  int32_t block_size() const { return block_size_; }  // tokens per block

  int32_t num_groups() const { return static_cast<int32_t>(groups().size()); }
  const std::vector<KvGroup>& groups() const { return layout_->groups.groups; }
  int32_t layers_per_block() const { return layout_->groups.layers_per_block; }
  // REQUIRES: 0 <= layer < num_layers.
  LayerPlace place(int32_t layer) const {
    return layout_->groups.places[static_cast<size_t>(layer)];
  }

  // 2 (K and V) x layers x kv_heads x head_dim x bytes, plus int8's scales. Of a token
  // that is in all layers' windows, the padding of groups counted.
  int64_t bytes_per_token() const { return num_groups() * bytes_per_block() / block_size_; }
  // Of a token that has left all windows.
  int64_t bytes_per_old_token() const;
  int64_t bytes_per_block() const { return layers_per_block() * bytes_per_layer_block_; }
  // Bytes of one layer inside a block: K of all heads and V of all heads.
  int64_t bytes_per_layer_block() const { return bytes_per_layer_block_; }

  // Blocks of one group that keeps all.
  int64_t BlocksFor(int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  // Blocks of all groups that a sequence of `tokens` tokens holds at most while it decodes. (While
  // it computes a prompt, also those that its next chunk fills.)
  int64_t BlocksHeld(int64_t tokens) const;
  int64_t PoolBytes(int64_t num_blocks) const { return num_blocks * bytes_per_block(); }
  // Whole blocks that fit, the padding block (kv.1) already taken off; never negative.
  int64_t LendableBlocks(int64_t pool_bytes) const;
  // Requests of `tokens` tokens that `num_blocks` blocks hold at once.
  double MaxConcurrency(int64_t num_blocks, int64_t tokens) const;

  // "2 x 30 layers x 3 kv_heads x 64 head_dim x 2 bytes = 23,040 bytes", and with windows
  // "...; 15 layers keep 512 tokens: older ones cost 3,072 bytes".
  std::string Formula() const;

  friend bool operator==(const CacheGeometry& a, const CacheGeometry& b) {
    return a.shape() == b.shape() && a.dtype_ == b.dtype_ && a.block_size_ == b.block_size_;
  }

 private:
  struct Layout {
    KvShape shape;
    KvGroups groups;
  };
  static std::shared_ptr<const Layout> NoLayout();

  std::shared_ptr<const Layout> layout_ = NoLayout();
  DType dtype_ = DType::kBF16;
  int32_t block_size_ = 16;
  int64_t bytes_per_layer_block_ = 0;
};

// 1234567 -> "1,234,567"
std::string WithCommas(int64_t value);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CACHE_GEOMETRY_H_
