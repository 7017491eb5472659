#include "worker/kv/kv_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "common/status_naming.h"

namespace octavo {

absl::StatusOr<std::unique_ptr<KvPool>> KvPool::Create(Backend& backend,
                                                       const CacheGeometry& geometry,
                                                       int64_t num_blocks, int64_t num_swap_blocks,
                                                       bool check_swaps) {
  const int64_t most =
      std::min<int64_t>(std::numeric_limits<BlockId>::max() - 1,
                        std::numeric_limits<int64_t>::max() / geometry.bytes_per_block() - 1);
  if (num_blocks < 1 || num_blocks > most)
    return absl::InvalidArgumentError(
        absl::StrCat("num_blocks is ", num_blocks, "; it must be in [1, ", most, "]"));
  if (num_swap_blocks < 0 || num_swap_blocks > most)
    return absl::InvalidArgumentError(
        absl::StrCat("num_swap_blocks is ", num_swap_blocks, "; it must be in [0, ", most, "]"));
  absl::StatusOr<Buffer> buffer =
      backend.Allocate(static_cast<size_t>(geometry.PoolBytes(num_blocks + 1)));
  if (!buffer.ok())
    return Naming(absl::StrCat("the KV cache of ", num_blocks, " blocks"), buffer.status());
  auto pool = absl::WrapUnique(new KvPool(backend, geometry, num_blocks, *std::move(buffer)));
  if (num_swap_blocks == 0) return pool;
  absl::StatusOr<Buffer> host =
      backend.AllocateHost(static_cast<size_t>(geometry.PoolBytes(num_swap_blocks)));
  if (!host.ok())
    return Naming(absl::StrCat("the host's ", num_swap_blocks, " blocks for swapping"),
                  host.status());
  pool->host_ = *std::move(host);
  pool->num_swap_blocks_ = num_swap_blocks;
  if (check_swaps) pool->checksums_.resize(static_cast<size_t>(num_swap_blocks));
  return pool;
}

KvPool::KvPool(Backend& backend, const CacheGeometry& geometry, int64_t num_blocks, Buffer buffer)
    : backend_(backend), geometry_(geometry), num_blocks_(num_blocks), buffer_(std::move(buffer)) {}

absl::Status KvPool::CopyBlocks(const std::vector<BlockCopy>& copies) {
  if (copies.empty()) return absl::OkStatus();
  copy_params_.copies.assign(copies.begin(), copies.end());
  copy_params_.pool = view();
  return backend_.CopyBlocks(copy_params_);
}

absl::Status KvPool::SwapOut(const std::vector<BlockSwap>& swaps) {
  const size_t bytes = static_cast<size_t>(geometry_.bytes_per_block());
  for (const BlockSwap& swap : swaps) {
    OCTAVO_RETURN_IF_ERROR(
        backend_.SwapOut(host_block(swap.host), device_block(swap.device), bytes));
    if (!checksums_.empty()) checksums_[static_cast<size_t>(swap.host) - 1] = Checksum(swap.host);
  }
  return absl::OkStatus();
}

absl::Status KvPool::SwapIn(const std::vector<BlockSwap>& swaps) {
  const size_t bytes = static_cast<size_t>(geometry_.bytes_per_block());
  for (const BlockSwap& swap : swaps) {
    OCTAVO_CHECK(
        checksums_.empty() || checksums_[static_cast<size_t>(swap.host) - 1] == Checksum(swap.host),
        "host block ", swap.host, " does not hold what was swapped out to it");
    OCTAVO_RETURN_IF_ERROR(
        backend_.SwapIn(device_block(swap.device), host_block(swap.host), bytes));
  }
  return absl::OkStatus();
}

// FNV-1a over 64-bit words: every word, and where it stands, counts.
uint64_t KvPool::Checksum(BlockId host) const {
  uint64_t sum = 0xcbf29ce484222325ULL;
  const std::byte* data = host_block(host);
  for (int64_t i = 0; i + 8 <= geometry_.bytes_per_block(); i += 8) {
    uint64_t word;
    std::memcpy(&word, data + i, 8);
    sum = (sum ^ word) * 0x100000001b3ULL;
  }
  return sum;
}

}  // namespace octavo
