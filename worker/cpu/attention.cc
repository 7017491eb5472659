#include "worker/cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cpu/host_buffer.h"

namespace octavo {
namespace {

// Queries of a tile: more share a pass over K and V, fewer leave more tiles to balance.
constexpr int32_t kMaxTileQueries = 16;
// What a group of 16 positions costs beside its rows (loads, pointers), in rows.
constexpr int64_t kGroupOverhead = 4;
// Below this the work takes about as long as waking another thread.
constexpr int64_t kSmallCost = 64;

absl::Status Invalid(absl::string_view what, int64_t value, absl::string_view limit,
                     int64_t limit_value) {
  return absl::InvalidArgumentError(
      absl::StrCat("paged attention: ", what, " is ", value, "; ", limit, " is ", limit_value));
}

absl::Status Check(const PagedAttentionParams& params) {
  const KvShape& shape = params.pool.geometry.shape();
  if (params.batch == nullptr || params.pool.data == nullptr || params.q.data == nullptr ||
      params.out.data == nullptr)
    return absl::InvalidArgumentError("paged attention: batch, pool, q or out is missing");
  if (params.head_dim != shape.head_dim)
    return Invalid("head_dim", params.head_dim, "the cache's", shape.head_dim);
  if (params.num_kv_heads != shape.num_kv_heads)
    return Invalid("num_kv_heads", params.num_kv_heads, "the cache's", shape.num_kv_heads);
  if (params.num_heads <= 0 || params.num_heads % params.num_kv_heads != 0)
    return Invalid("num_heads", params.num_heads, "its divisor num_kv_heads", params.num_kv_heads);
  if (params.layer < 0 || params.layer >= shape.num_layers)
    return Invalid("layer", params.layer, "num_layers", shape.num_layers);
  if (params.batch->num_groups != params.pool.geometry.num_groups())
    return Invalid("num_groups of the batch", params.batch->num_groups, "the cache's",
                   params.pool.geometry.num_groups());
  if (params.sliding_window < 0)
    return Invalid("sliding_window", params.sliding_window, "the least", 0);
  if (!std::isfinite(params.scale))
    return absl::InvalidArgumentError("paged attention: scale is not finite");
  if (!std::isfinite(params.softcap) || params.softcap < 0)
    return absl::InvalidArgumentError(absl::StrCat("paged attention: softcap is ", params.softcap,
                                                   "; it must be finite and at least 0"));
  const int64_t cols = int64_t{params.num_heads} * params.head_dim;
  for (const Matrix* matrix : {&params.q, &params.out}) {
    if (matrix->cols < cols) return Invalid("cols of q or out", matrix->cols, "heads x dim", cols);
    if (matrix->rows < params.batch->num_rows)
      return Invalid("rows of q or out", matrix->rows, "the batch's", params.batch->num_rows);
  }
  for (const SequenceRows& sequence : params.batch->sequences) {
    if (sequence.first_row < 0 || sequence.num_rows < 0 || sequence.context_length < 0 ||
        sequence.first_row + int64_t{sequence.num_rows} > params.batch->num_rows)
      return Invalid("last row of a sequence", sequence.first_row + int64_t{sequence.num_rows},
                     "the batch's", params.batch->num_rows);
    const int64_t held = int64_t{sequence.table_length} * params.pool.geometry.block_size();
    const int64_t length = int64_t{sequence.context_length} + sequence.num_rows;
    if (length > held) return Invalid("length of a sequence", length, "what its blocks hold", held);
  }
  return absl::OkStatus();
}

// REQUIRES: a type that CacheGeometry accepts.
KvElement ElementOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return KvElement::kFloat32;
    case DType::kF16:
      return KvElement::kFloat16;
    case DType::kI8:
      return KvElement::kInt8;
    case DType::kF8E4M3:
      return KvElement::kFloat8E4M3;
    case DType::kF8E5M2:
      return KvElement::kFloat8E5M2;
    default:
      return KvElement::kBFloat16;
  }
}

int64_t Cost(const AttentionTile& tile) {
  int64_t positions = tile.first_position + tile.num_queries;
  if (tile.sliding_window > 0)
    positions = std::min<int64_t>(positions, int64_t{tile.sliding_window} + tile.num_queries);
  return (positions + 15) / 16 * (int64_t{tile.num_queries} * tile.num_heads + kGroupOverhead);
}

}  // namespace

absl::Status Attention::Run(const PagedAttentionParams& params) {
  OCTAVO_RETURN_IF_ERROR(Check(params));
  OCTAVO_ASSIGN_OR_RETURN(const KvLayout layout, KvLayout::Create(params.pool.geometry));
  OCTAVO_RETURN_IF_ERROR(ReserveScratch(params.head_dim));
  const KvElement element = ElementOf(layout.dtype());
  const AttentionKernel kernel =
      isa_ == Isa::kAvx2 ? AttentionKernelAvx2(element) : AttentionKernelAvx512(element);
  CutTiles(params, layout);
  const bool decode = std::all_of(tiles_.begin(), tiles_.end(),
                                  [](const AttentionTile& tile) { return tile.num_queries == 1; });
  if (decode)
    RunPresplit(kernel);
  else
    RunDynamic(kernel);
  return absl::OkStatus();
}

absl::Status Attention::ReserveScratch(int32_t head_dim) {
  const int64_t needed = (AttentionScratchFloats(head_dim) + 15) / 16 * 16;
  if (needed <= scratch_stride_) return absl::OkStatus();
  OCTAVO_ASSIGN_OR_RETURN(
      scratch_, AllocateHostBuffer(static_cast<size_t>(needed * pool_.size()) * sizeof(float)));
  scratch_stride_ = needed;
  return absl::OkStatus();
}

void Attention::CutTiles(const PagedAttentionParams& params, const KvLayout& layout) {
  tiles_.clear();
  costs_.clear();
  for (const SequenceRows& sequence : params.batch->sequences)
    if (sequence.num_rows > 1) AddTiles(params, layout, sequence);
  for (const SequenceRows& sequence : params.batch->sequences)
    if (sequence.num_rows == 1) AddTiles(params, layout, sequence);
  total_cost_ = 0;
  for (const AttentionTile& tile : tiles_) {
    costs_.push_back(Cost(tile));
    total_cost_ += costs_.back();
  }
}

void Attention::AddTiles(const PagedAttentionParams& params, const KvLayout& layout,
                         const SequenceRows& sequence) {
  const int32_t group = params.num_heads / params.num_kv_heads;
  const int32_t tile_heads = std::min(group, kMaxTileRows);
  const int32_t tile_queries = std::clamp(kMaxTileRows / tile_heads, 1, kMaxTileQueries);
  const LayerPlace place = params.pool.geometry.place(params.layer);
  AttentionTile tile;
  tile.block_stride = layout.block_stride();
  tile.table = params.batch->TablesOf(place.group) + sequence.table_begin;
  tile.table_length = sequence.table_length;
  tile.block_size = layout.block_size();
  tile.head_dim = params.head_dim;
  tile.sliding_window = params.sliding_window;
  constexpr float kLog2E = 1.44269504088896341f;
  tile.score_cap = params.softcap * kLog2E;
  tile.q_scale = params.softcap > 0 ? params.scale / params.softcap : params.scale * kLog2E;
  tile.q_stride = params.q.stride;
  tile.out_stride = params.out.stride;
  // From the last queries, which see most, to the first.
  const int32_t last_tile = (sequence.num_rows - 1) / tile_queries;
  for (int32_t at = last_tile; at >= 0; --at) {
    const int32_t query = at * tile_queries;
    tile.first_position = sequence.context_length + query;
    tile.num_queries = std::min(tile_queries, sequence.num_rows - query);
    for (int32_t kv_head = 0; kv_head < params.num_kv_heads; ++kv_head) {
      tile.piece = params.pool.data + layout.PieceOffset(place.index, kv_head);
      for (int32_t head = 0; head < group; head += tile_heads) {
        tile.num_heads = std::min(tile_heads, group - head);
        const int64_t column = (int64_t{kv_head} * group + head) * params.head_dim;
        tile.q = params.q.row(sequence.first_row + query) + column;
        tile.out = params.out.row(sequence.first_row + query) + column;
        tiles_.push_back(tile);
      }
    }
  }
}

void Attention::RunPresplit(AttentionKernel kernel) {
  const auto run = [&](int thread, int threads) {
    // A tile belongs to the thread in whose share of the total its middle lies.
    int64_t before = 0;
    AttentionTile* mine = nullptr;
    for (size_t i = 0; i < tiles_.size(); ++i) {
      const int64_t owner = (2 * before + costs_[i]) * threads / (2 * total_cost_);
      before += costs_[i];
      if (owner != thread) continue;
      tiles_[i].scratch = Scratch(thread);
      tiles_[i].next = nullptr;
      if (mine != nullptr) {
        mine->next = &tiles_[i];
        kernel(*mine);
      }
      mine = &tiles_[i];
    }
    if (mine != nullptr) kernel(*mine);
  };
  if (total_cost_ < kSmallCost) return run(0, 1);
  pool_.Run([&](int thread) { run(thread, pool_.size()); });
}

void Attention::RunDynamic(AttentionKernel kernel) {
  next_tile_.store(0, std::memory_order_relaxed);
  pool_.Run([&](int thread) {
    const auto take = [&]() -> AttentionTile* {
      const int64_t i = next_tile_.fetch_add(1, std::memory_order_relaxed);
      if (i >= static_cast<int64_t>(tiles_.size())) return nullptr;
      tiles_[static_cast<size_t>(i)].scratch = Scratch(thread);
      return &tiles_[static_cast<size_t>(i)];
    };
    for (AttentionTile* tile = take(); tile != nullptr;) {
      AttentionTile* next = take();
      tile->next = next;
      kernel(*tile);
      tile = next;
    }
  });
}

}  // namespace octavo
