#include "worker/cuda/kernels/paged_attention.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace octavo::cuda {
namespace {

absl::Status Invalid(absl::string_view op, absl::string_view what, int64_t value,
                     absl::string_view limit) {
  return absl::InvalidArgumentError(absl::StrCat(op, ": ", what, " is ", value, "; ", limit));
}

bool IsAligned(const void* pointer, uintptr_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

}  // namespace

absl::Status CheckPagedShape(absl::string_view op, const PagedKv& kv, int32_t num_heads) {
  if (kv.dtype != DType::kBF16 && kv.dtype != DType::kF16 && !IsEightBit(kv.dtype))
    return absl::UnimplementedError(
        absl::StrCat(op, ": the cache is ", Info(kv.dtype).name,
                     "; it must be bf16, fp16, int8, fp8_e4m3 or fp8_e5m2"));
  if (kv.head_dim != 64 && kv.head_dim != 80 && kv.head_dim != 96 && kv.head_dim != 128 &&
      kv.head_dim != 256)
    return absl::UnimplementedError(
        absl::StrCat(op, ": head_dim is ", kv.head_dim, "; it must be 64, 80, 96, 128 or 256"));
  if (kv.block_size != 8 && kv.block_size != 16 && kv.block_size != 32 && kv.block_size != 64)
    return Invalid(op, "block size", kv.block_size, "it must be 8, 16, 32 or 64");
  // One dimension of the grid; num_heads bounds the other.
  constexpr int32_t kMostHeads = 65535;
  if (kv.num_kv_heads < 1 || kv.num_kv_heads > kMostHeads)
    return Invalid(op, "num_kv_heads", kv.num_kv_heads, "it must be from 1 to 65,535");
  if (num_heads < kv.num_kv_heads || num_heads > kMostHeads || num_heads % kv.num_kv_heads != 0)
    return Invalid(
        op, "num_heads", num_heads,
        absl::StrCat("it must be a multiple of num_kv_heads, ", kv.num_kv_heads, ", up to 65,535"));
  return absl::OkStatus();
}

absl::Status CheckPagedArgs(absl::string_view op, const PagedAttentionArgs& args,
                            const void* items) {
  const PagedKv& kv = args.kv;
  OCTAVO_RETURN_IF_ERROR(CheckPagedShape(op, kv, args.num_heads));
  if (kv.data == nullptr || args.q == nullptr || args.out == nullptr ||
      args.block_tables == nullptr || items == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat(op, ": cache, q, out, block tables or items are missing"));
  const int64_t cols = int64_t{args.num_heads} * kv.head_dim;
  if (args.q_stride < cols || args.q_stride % 2 != 0 || !IsAligned(args.q, 8))
    return Invalid(op, "the stride of q", args.q_stride,
                   absl::StrCat("it must be even and at least ", cols, ", and q 8-byte aligned"));
  if (args.out_stride < cols)
    return Invalid(op, "the stride of out", args.out_stride,
                   absl::StrCat("it must be at least ", cols));
  const int64_t scales = kv.dtype == DType::kI8 ? 2 : 0;
  const int64_t layer_bytes =
      int64_t{2} * kv.num_kv_heads * kv.block_size * (RowBytes(kv.dtype, kv.head_dim) + scales);
  if (kv.block_stride < layer_bytes || kv.block_stride % kChunkBytes != 0 ||
      !IsAligned(kv.data, kChunkBytes))
    return Invalid(op, "the stride of blocks", kv.block_stride,
                   absl::StrCat("it must be a multiple of 16 and at least ", layer_bytes,
                                ", and the cache 16-byte aligned"));
  if (!IsAligned(items, 16))
    return absl::InvalidArgumentError(absl::StrCat(op, ": items are not 16-byte aligned"));
  if (!std::isfinite(args.scale))
    return absl::InvalidArgumentError(absl::StrCat(op, ": scale is not finite"));
  if (!std::isfinite(args.softcap) || args.softcap < 0)
    return absl::InvalidArgumentError(
        absl::StrCat(op, ": softcap is ", args.softcap, "; it must be finite and at least 0"));
  if (args.sliding_window < 0)
    return Invalid(op, "sliding_window", args.sliding_window, "it must be at least 0");
  return absl::OkStatus();
}

}  // namespace octavo::cuda
