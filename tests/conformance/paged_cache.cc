#include "tests/conformance/paged_cache.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "gtest/gtest.h"

namespace octavo {

PagedCache::PagedCache(Backend& backend, const PagedShape& shape, int32_t num_blocks)
    : backend_(backend), shape_(shape) {
  KvShape kv_shape{kNumLayers, shape.num_kv_heads, shape.head_dim};
  if (shape.in_windowed_group) kv_shape.layer_windows = {0, shape.sliding_window};
  geometry_ = CacheGeometry::Create(kv_shape, shape.dtype, shape.block_size).value();
  const auto bytes = static_cast<size_t>(geometry_.PoolBytes(num_blocks + 1));
  pool_ = backend.Allocate(bytes).value();
  std::vector<std::byte> poison(bytes, std::byte{0xff});  // NaN in every float type and scale
  EXPECT_TRUE(backend.CopyToDevice(pool_.data(), poison.data(), bytes).ok());
  free_.resize(static_cast<size_t>(num_blocks));
  std::iota(free_.begin(), free_.end(), 1);
  std::shuffle(free_.begin(), free_.end(), std::mt19937_64(7));
}

int32_t PagedCache::Add(TokenRows tokens) {
  Sequence sequence;
  const auto needed = static_cast<size_t>(geometry_.BlocksFor(tokens.length));
  EXPECT_LE(needed, free_.size());
  sequence.blocks.assign(free_.end() - static_cast<std::ptrdiff_t>(needed), free_.end());
  free_.resize(free_.size() - needed);
  sequence.tokens = std::move(tokens);
  sequences_.push_back(std::move(sequence));
  return static_cast<int32_t>(sequences_.size()) - 1;
}

std::vector<float> PagedCache::Step(const std::vector<Chunk>& chunks) {
  const int32_t q_cols = shape_.num_heads * shape_.head_dim;
  const int32_t kv_cols = shape_.num_kv_heads * shape_.head_dim;
  const int64_t qkv_cols = q_cols + 2 * kv_cols;
  StepBatch batch;
  std::vector<int32_t> positions;
  std::vector<int64_t> slots;
  std::vector<BlockId> tables;
  std::vector<float> qkv;
  for (const Chunk& chunk : chunks) {
    const Sequence& sequence = sequences_[Index(chunk.sequence)];
    SequenceRows rows;
    rows.first_row = batch.num_rows;
    rows.num_rows = chunk.rows;
    rows.context_length = chunk.context;
    rows.table_begin = static_cast<int32_t>(tables.size());
    // Only what the scheduler would have lent by now.
    rows.table_length = static_cast<int32_t>(geometry_.BlocksFor(chunk.context + chunk.rows));
    tables.insert(tables.end(), sequence.blocks.begin(),
                  sequence.blocks.begin() + rows.table_length);
    for (int32_t p = chunk.context; p < chunk.context + chunk.rows; ++p) {
      positions.push_back(p);
      const BlockId block = sequence.blocks[Index(p / shape_.block_size)];
      slots.push_back(int64_t{block} * shape_.block_size + p % shape_.block_size);
      const auto append = [&](const std::vector<float>& values, int32_t cols) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(p) * cols;
        qkv.insert(qkv.end(), begin, begin + cols);
      };
      append(sequence.tokens.q, q_cols);
      append(sequence.tokens.k, kv_cols);
      append(sequence.tokens.v, kv_cols);
    }
    batch.num_rows += chunk.rows;
    batch.sequences.push_back(rows);
    if (!shape_.in_windowed_group) continue;
    const int64_t seen = FirstBlockSeen(chunk.context, shape_.sliding_window, shape_.block_size);
    std::fill_n(tables.begin() + rows.table_begin, seen, kPaddingBlock);
  }
  batch.num_table_entries = static_cast<int64_t>(tables.size());
  if (shape_.in_windowed_group) {
    batch.num_groups = 2;
    tables.insert(tables.begin(), tables.size(), kPaddingBlock);
    slots.insert(slots.begin(), slots.size(), 0);
  }
  batch.positions = positions.data();
  batch.slots = slots.data();
  batch.block_tables = tables.data();
  const KvPoolView pool{pool_.data(), geometry_};
  const Matrix qkv_rows{qkv.data(), batch.num_rows, qkv_cols, qkv_cols};

  RopeAndWriteKvParams write;
  write.qkv = qkv_rows;
  write.num_heads = shape_.num_heads;
  write.num_kv_heads = shape_.num_kv_heads;
  write.head_dim = shape_.head_dim;
  write.batch = &batch;
  write.pool = pool;
  write.layer = kLayer;
  const absl::Status written = backend_.RopeAndWriteKv(write);
  EXPECT_TRUE(written.ok()) << written;

  std::vector<float> out(static_cast<size_t>(batch.num_rows) * Index(q_cols), NAN);
  PagedAttentionParams attend;
  attend.q = {qkv.data(), batch.num_rows, q_cols, qkv_cols};
  attend.out = {out.data(), batch.num_rows, q_cols, q_cols};
  attend.num_heads = shape_.num_heads;
  attend.num_kv_heads = shape_.num_kv_heads;
  attend.head_dim = shape_.head_dim;
  attend.scale = static_cast<float>(ScaleOf(shape_));
  attend.softcap = shape_.softcap;
  attend.sliding_window = shape_.sliding_window;
  attend.batch = &batch;
  attend.pool = pool;
  attend.layer = kLayer;
  const absl::Status attended = backend_.PagedAttention(attend);
  EXPECT_TRUE(attended.ok()) << attended;
  EXPECT_TRUE(backend_.Synchronize().ok());
  return out;
}

std::vector<float> PagedCache::Prefill(int32_t sequence, int32_t first, int32_t last,
                                       int32_t chunk) {
  std::vector<float> out;
  for (int32_t p = first; p < last; p += chunk) {
    const std::vector<float> rows = Step({{sequence, p, std::min(chunk, last - p)}});
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

std::vector<double> PagedCache::Reference(int32_t sequence, int32_t position) const {
  return AttentionReference(shape_, tokens(sequence), position);
}

}  // namespace octavo
