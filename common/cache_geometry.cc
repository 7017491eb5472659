#include "common/cache_geometry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace octavo {
namespace {

// Stored beside each token's K and V of a head when the elements are one byte wide.
constexpr int64_t kScaleBytes = 2;

}  // namespace

absl::StatusOr<CacheGeometry> CacheGeometry::Create(const KvShape& shape, DType kv_dtype,
                                                    int32_t block_size) {
  if (block_size != 8 && block_size != 16 && block_size != 32 && block_size != 64)
    return absl::InvalidArgumentError(
        absl::StrCat("block size is ", block_size, "; it must be 8, 16, 32 or 64 tokens"));
  if (!IsFloat(kv_dtype) && kv_dtype != DType::kI8)
    return absl::InvalidArgumentError(
        absl::StrCat("KV cache dtype ", Info(kv_dtype).name, " has no cache layout"));
  if (shape.num_layers <= 0 || shape.num_kv_heads <= 0 || shape.head_dim <= 0)
    return absl::InvalidArgumentError(
        absl::StrCat("cache shape must be positive, got ", shape.num_layers, " layers x ",
                     shape.num_kv_heads, " kv_heads x ", shape.head_dim, " head_dim"));
  CacheGeometry geometry;
  geometry.shape_ = shape;
  geometry.dtype_ = kv_dtype;
  geometry.block_size_ = block_size;
  int64_t per_head = StorageBytes(kv_dtype, shape.head_dim);
  if (kv_dtype == DType::kI8) per_head += kScaleBytes;
  geometry.bytes_per_token_ = int64_t{2} * shape.num_layers * shape.num_kv_heads * per_head;
  return geometry;
}

int64_t CacheGeometry::LendableBlocks(int64_t pool_bytes) const {
  return std::max<int64_t>(0, pool_bytes / bytes_per_block() - 1);
}

double CacheGeometry::MaxConcurrency(int64_t num_blocks, int64_t tokens) const {
  return static_cast<double>(num_blocks) /
         static_cast<double>(std::max<int64_t>(1, BlocksFor(tokens)));
}

std::string CacheGeometry::Formula() const {
  const int64_t element_bytes = StorageBytes(dtype_, 1);
  std::string text =
      absl::StrCat("2 x ", shape_.num_layers, " layers x ", shape_.num_kv_heads, " kv_heads x ");
  if (dtype_ == DType::kI8)
    absl::StrAppend(&text, "(", shape_.head_dim, " head_dim x 1 byte + ", kScaleBytes, ")");
  else
    absl::StrAppend(&text, shape_.head_dim, " head_dim x ", element_bytes, " bytes");
  return absl::StrCat(text, " = ", WithCommas(bytes_per_token_), " bytes");
}

std::string WithCommas(int64_t value) {
  std::string digits = absl::StrCat(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace octavo
