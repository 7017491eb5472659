// Every byte count of the KV cache, computed here and nowhere else (design chapter 6).
#ifndef OCTAVO_COMMON_CACHE_GEOMETRY_H_
#define OCTAVO_COMMON_CACHE_GEOMETRY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/dtype.h"

namespace octavo {

// What of a model decides the size of its cache.
struct KvShape {
  int32_t num_layers = 0;
  int32_t num_kv_heads = 0;  // of one rank
  int32_t head_dim = 0;
  friend bool operator==(const KvShape&, const KvShape&) = default;
};

class CacheGeometry {
 public:
  CacheGeometry() = default;
  // INVALID_ARGUMENT for a block size other than 8, 16, 32, 64, a dtype the cache has no layout
  // for, or a shape that is not positive.
  static absl::StatusOr<CacheGeometry> Create(const KvShape& shape, DType kv_dtype,
                                              int32_t block_size);

  const KvShape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  int32_t block_size() const { return block_size_; }  // tokens per block

  // 2 (K and V) x layers x kv_heads x head_dim x bytes, plus scales for 8-bit types.
  int64_t bytes_per_token() const { return bytes_per_token_; }
  int64_t bytes_per_block() const { return bytes_per_token_ * block_size_; }
  // Bytes of one layer inside a block: K of all heads and V of all heads.
  int64_t bytes_per_layer_block() const { return bytes_per_block() / shape_.num_layers; }

  int64_t BlocksFor(int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  int64_t PoolBytes(int64_t num_blocks) const { return num_blocks * bytes_per_block(); }
  // Whole blocks that fit, the padding block (kv.1) already taken off; never negative.
  int64_t LendableBlocks(int64_t pool_bytes) const;
  // Requests of `tokens` tokens that `num_blocks` blocks hold at once.
  double MaxConcurrency(int64_t num_blocks, int64_t tokens) const;

  // "2 x 30 layers x 3 kv_heads x 64 head_dim x 2 bytes = 23,040 bytes"
  std::string Formula() const;

  friend bool operator==(const CacheGeometry&, const CacheGeometry&) = default;

 private:
  KvShape shape_;
  DType dtype_ = DType::kBF16;
  int32_t block_size_ = 16;
  int64_t bytes_per_token_ = 0;
};

// 1234567 -> "1,234,567"
std::string WithCommas(int64_t value);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CACHE_GEOMETRY_H_
