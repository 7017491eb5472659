#include "common/cache_geometry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace octavo {
namespace {

// Stored beside each token's K and V of a head when the elements are int8.
constexpr int64_t kScaleBytes = 2;

}  // namespace

absl::StatusOr<CacheGeometry> CacheGeometry::Create(const KvShape& shape, DType kv_dtype,
                                                    int32_t block_size) {
  if (block_size != 8 && block_size != 16 && block_size != 32 && block_size != 64)
    return absl::InvalidArgumentError(
        absl::StrCat("block size is ", block_size, "; it must be 8, 16, 32 or 64 tokens"));
  if (!IsFloat(kv_dtype) && !IsEightBit(kv_dtype))
    return absl::InvalidArgumentError(
        absl::StrCat("KV cache dtype ", Info(kv_dtype).name, " has no cache layout"));
  if (shape.num_layers <= 0 || shape.num_kv_heads <= 0 || shape.head_dim <= 0)
    return absl::InvalidArgumentError(
        absl::StrCat("cache shape must be positive, got ", shape.num_layers, " layers x ",
                     shape.num_kv_heads, " kv_heads x ", shape.head_dim, " head_dim"));
  if (!shape.layer_windows.empty() &&
      shape.layer_windows.size() != static_cast<size_t>(shape.num_layers))
    return absl::InvalidArgumentError(absl::StrCat("cache shape has ", shape.layer_windows.size(),
                                                   " windows for ", shape.num_layers, " layers"));
  for (const int32_t window : shape.layer_windows) {
    if (window < 0)
      return absl::InvalidArgumentError(
          absl::StrCat("a layer's window is ", window, " tokens; it must be at least 0"));
  }
  CacheGeometry geometry;
  geometry.layout_ = std::make_shared<const Layout>(
      Layout{shape, GroupLayers(shape.num_layers, shape.layer_windows)});
  geometry.dtype_ = kv_dtype;
  geometry.block_size_ = block_size;
  int64_t per_head = StorageBytes(kv_dtype, shape.head_dim);
  if (kv_dtype == DType::kI8) per_head += kScaleBytes;
  geometry.bytes_per_layer_block_ = int64_t{2} * shape.num_kv_heads * per_head * block_size;
  return geometry;
}

std::shared_ptr<const CacheGeometry::Layout> CacheGeometry::NoLayout() {
  static const auto* const none =
      new std::shared_ptr<const Layout>(std::make_shared<const Layout>());
  return *none;
}

int64_t CacheGeometry::bytes_per_old_token() const {
  const auto keeping = std::count_if(groups().begin(), groups().end(),
                                     [](const KvGroup& group) { return group.window == 0; });
  return keeping * bytes_per_block() / block_size_;
}

int64_t CacheGeometry::BlocksHeld(int64_t tokens) const {
  int64_t blocks = 0;
  for (const KvGroup& group : groups()) {
    blocks += BlocksKept(BlocksFor(tokens), group.window, block_size_);
  }
  return blocks;
}

int64_t CacheGeometry::LendableBlocks(int64_t pool_bytes) const {
  return std::max<int64_t>(0, pool_bytes / bytes_per_block() - 1);
}

double CacheGeometry::MaxConcurrency(int64_t num_blocks, int64_t tokens) const {
  return static_cast<double>(num_blocks) /
         static_cast<double>(std::max<int64_t>(1, BlocksHeld(tokens)));
}

std::string CacheGeometry::Formula() const {
  const int64_t element_bytes = StorageBytes(dtype_, 1);
  const int32_t slots = num_groups() * layers_per_block();
  std::string text = absl::StrCat("2 x ", slots, " layers x ");
  if (slots > shape().num_layers)
    text = absl::StrCat("2 x (", shape().num_layers, " layers + ", slots - shape().num_layers,
                        " padding) x ");
  absl::StrAppend(&text, shape().num_kv_heads, " kv_heads x ");
  if (dtype_ == DType::kI8)
    absl::StrAppend(&text, "(", shape().head_dim, " head_dim x 1 byte + ", kScaleBytes, ")");
  else
    absl::StrAppend(&text, shape().head_dim, " head_dim x ", element_bytes,
                    element_bytes == 1 ? " byte" : " bytes");
  absl::StrAppend(&text, " = ", WithCommas(bytes_per_token()), " bytes");
  int32_t layers = 0;  // of the present window
  bool windowed = false;
  for (size_t i = 0; i < groups().size(); ++i) {
    const KvGroup& group = groups()[i];
    layers += group.num_layers;
    if (i + 1 < groups().size() && groups()[i + 1].window == group.window) continue;
    if (group.window > 0)
      absl::StrAppend(&text, windowed ? ", " : "; ", layers, " layers keep ",
                      WithCommas(group.window), " tokens");
    windowed |= group.window > 0;
    layers = 0;
  }
  if (windowed)
    absl::StrAppend(&text, ": older ones cost ", WithCommas(bytes_per_old_token()), " bytes");
  return text;
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
