#include "tests/conformance/paged_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>

#include "gtest/gtest.h"
#include "tests/conformance/float_rounding.h"

namespace octavo {
namespace {

double ScaleOf(const PagedShape& shape) { return 1.0 / std::sqrt(shape.head_dim); }

}  // namespace

TokenRows RandomTokens(const PagedShape& shape, int32_t length, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, 1.4f);
  TokenRows rows;
  rows.length = length;
  const auto fill = [&](std::vector<float>& values, int32_t heads) {
    values.resize(static_cast<size_t>(length) * static_cast<size_t>(heads * shape.head_dim));
    for (float& value : values) value = normal(random);
  };
  fill(rows.q, shape.num_heads);
  fill(rows.k, shape.num_kv_heads);
  fill(rows.v, shape.num_kv_heads);
  return rows;
}

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
  const TokenRows& tokens = sequences_[Index(sequence)].tokens;
  const int32_t dim = shape_.head_dim;
  const int32_t group = shape_.num_heads / shape_.num_kv_heads;
  const int32_t first =
      shape_.sliding_window > 0 ? std::max(0, position - shape_.sliding_window + 1) : 0;
  const auto row = [&](const std::vector<float>& values, int32_t heads, int32_t at, int32_t head) {
    return values.data() + (static_cast<size_t>(at) * Index(heads) + Index(head)) * Index(dim);
  };
  std::vector<double> out;
  for (int32_t head = 0; head < shape_.num_heads; ++head) {
    const float* q = row(tokens.q, shape_.num_heads, position, head);
    std::vector<double> weights;
    for (int32_t p = first; p <= position; ++p) {
      const std::vector<float> k =
          RoundRow(shape_.dtype, row(tokens.k, shape_.num_kv_heads, p, head / group), dim);
      double score = 0;
      for (int32_t d = 0; d < dim; ++d) score += double{q[d]} * double{k[Index(d)]};
      score *= ScaleOf(shape_);
      if (shape_.softcap > 0) score = shape_.softcap * std::tanh(score / shape_.softcap);
      weights.push_back(score);
    }
    const double max = *std::max_element(weights.begin(), weights.end());
    double total = 0;
    for (double& weight : weights) total += weight = std::exp(weight - max);
    std::vector<double> sums(Index(dim));
    for (int32_t p = first; p <= position; ++p) {
      const std::vector<float> v =
          RoundRow(shape_.dtype, row(tokens.v, shape_.num_kv_heads, p, head / group), dim);
      for (int32_t d = 0; d < dim; ++d)
        sums[Index(d)] += weights[Index(p - first)] * double{v[Index(d)]};
    }
    for (const double sum : sums) out.push_back(sum / total);
  }
  return out;
}

}  // namespace octavo
