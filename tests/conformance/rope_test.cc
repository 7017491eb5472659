// Rope, norms per head and the KV write against a double reference and the cache layout.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/checkpoint/dequantize.h"
#include "tests/conformance/float_rounding.h"
#include "worker/cpu/cpu_backend.h"
#include "worker/cpu/kv_layout.h"

namespace octavo {
namespace {

struct RopeShape {
  int32_t num_heads = 4;
  int32_t num_kv_heads = 2;
  int32_t head_dim = 64;
  int32_t rotary_dim = 64;
  bool interleaved = false;
  bool norms = false;
  DType dtype = DType::kBF16;
  int32_t block_size = 16;
};

constexpr int32_t kPositions = 500;
constexpr int32_t kLayer = 1;
constexpr float kEps = 1e-5f;

std::unique_ptr<CpuBackend> MakeCpu(int threads) {
  CpuBackendOptions options;
  options.threads = threads;
  return CpuBackend::Create(options).value();
}

float Decode(DType dtype, const std::byte* stored) {
  if (dtype == DType::kI8) return static_cast<float>(static_cast<int8_t>(*stored));
  if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2)
    return static_cast<float>(Float8Value(dtype, static_cast<uint8_t>(*stored)));
  float value = NAN;
  EXPECT_TRUE(DequantizeRow(dtype, stored, 1, &value).ok());
  return value;
}

// Rows at scattered positions and slots, their tables and what the op made of them.
class RopeRun {
 public:
  RopeRun(const RopeShape& shape, int32_t num_rows, int threads) : shape_(shape) {
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal(0, 2);
    const int64_t cols = int64_t{shape.num_heads + 2 * shape.num_kv_heads} * shape.head_dim;
    geometry_ = CacheGeometry::Create({2, shape.num_kv_heads, shape.head_dim}, shape.dtype,
                                      shape.block_size)
                    .value();
    const int32_t num_blocks = 2 * num_rows / shape.block_size + 2;
    pool_.resize(static_cast<size_t>(geometry_.PoolBytes(num_blocks)), std::byte{0xff});
    before_.resize(static_cast<size_t>(num_rows * cols));
    for (float& value : before_) value = normal(random);
    after_ = before_;
    cos_sin_.resize(static_cast<size_t>(kPositions) * static_cast<size_t>(shape.rotary_dim));
    for (size_t i = 0; i < cos_sin_.size(); i += 2) {
      const float angle = normal(random) * 10;
      cos_sin_[i] = std::cos(angle);
      cos_sin_[i + 1] = std::sin(angle);
    }
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      q_weight_.push_back(normal(random));
      k_weight_.push_back(normal(random));
    }
    std::set<int64_t> used;
    for (int32_t row = 0; row < num_rows; ++row) {
      positions_.push_back(static_cast<int32_t>(random() % kPositions));
      int64_t slot = 0;
      do
        slot =
            static_cast<int64_t>(random() % static_cast<uint64_t>(num_blocks * shape.block_size));
      while (!used.insert(slot).second);
      slots_.push_back(slot);
    }
    batch_.num_rows = num_rows;
    batch_.positions = positions_.data();
    batch_.slots = slots_.data();
    params_.qkv = {after_.data(), num_rows, cols, cols};
    params_.num_heads = shape.num_heads;
    params_.num_kv_heads = shape.num_kv_heads;
    params_.head_dim = shape.head_dim;
    if (shape.norms) {
      params_.q_norm = {q_weight_.data(), kEps};
      params_.k_norm = {k_weight_.data(), kEps};
    }
    params_.rope = {cos_sin_.data(), shape.rotary_dim, kPositions, shape.interleaved};
    params_.batch = &batch_;
    params_.pool = {pool_.data(), geometry_};
    params_.layer = kLayer;
    status_ = MakeCpu(threads)->RopeAndWriteKv(params_);
    EXPECT_TRUE(status_.ok()) << status_;
  }

  // q and k heads are rotated in place, v is as before, and the pool holds k and v rounded.
  void CheckAll() const {
    const int32_t heads = shape_.num_heads + shape_.num_kv_heads;
    const KvLayout layout = KvLayout::Create(geometry_).value();
    for (int32_t row = 0; row < batch_.num_rows; ++row) {
      for (int32_t head = 0; head < heads; ++head) CheckHead(row, head);
      const float* after = params_.qkv.row(row);
      const int64_t slot = slots_[static_cast<size_t>(row)];
      const auto in_block = static_cast<int32_t>(slot % shape_.block_size);
      for (int32_t kv_head = 0; kv_head < shape_.num_kv_heads; ++kv_head) {
        const std::byte* piece = pool_.data() +
                                 slot / shape_.block_size * geometry_.bytes_per_block() +
                                 layout.PieceOffset(kLayer, kv_head);
        const float* k = after + (shape_.num_heads + kv_head) * shape_.head_dim;
        const float* v = after + (heads + kv_head) * shape_.head_dim;
        const float* v_before =
            before_.data() + row * params_.qkv.cols + (heads + kv_head) * shape_.head_dim;
        const bool scaled = shape_.dtype == DType::kI8;
        const float k_scale =
            scaled ? Decode(DType::kF16, piece + layout.KeyScaleOffset(in_block)) : 1;
        const float v_scale =
            scaled ? Decode(DType::kF16, piece + layout.ValueScaleOffset(in_block)) : 1;
        const std::vector<float> k_rounded = RoundRow(shape_.dtype, k, shape_.head_dim);
        const std::vector<float> v_rounded = RoundRow(shape_.dtype, v, shape_.head_dim);
        for (int32_t d = 0; d < shape_.head_dim; ++d) {
          ASSERT_EQ(v[d], v_before[d]);
          ASSERT_EQ(Decode(shape_.dtype, piece + layout.KeyOffset(in_block, d)) * k_scale,
                    k_rounded[static_cast<size_t>(d)]);
          ASSERT_EQ(Decode(shape_.dtype, piece + layout.ValueOffset(in_block, d)) * v_scale,
                    v_rounded[static_cast<size_t>(d)]);
        }
      }
    }
  }

  size_t BytesWritten() const {
    size_t written = 0;
    for (const std::byte byte : pool_) written += byte != std::byte{0xff};
    return written;
  }
  const std::vector<float>& after() const { return after_; }
  const std::vector<std::byte>& pool() const { return pool_; }

 private:
  void CheckHead(int32_t row, int32_t head) const {
    const int64_t begin = row * params_.qkv.cols + int64_t{head} * shape_.head_dim;
    std::vector<double> x(before_.begin() + begin, before_.begin() + begin + shape_.head_dim);
    if (shape_.norms) {
      double mean = 0;
      for (const double value : x) mean += value * value / shape_.head_dim;
      const std::vector<float>& weight = head < shape_.num_heads ? q_weight_ : k_weight_;
      for (size_t d = 0; d < x.size(); ++d)
        x[d] = x[d] / std::sqrt(mean + double{kEps}) * double{weight[d]};
    }
    const int32_t pairs = shape_.rotary_dim / 2;
    const float* table = cos_sin_.data() + positions_[static_cast<size_t>(row)] * shape_.rotary_dim;
    for (int32_t i = 0; i < pairs; ++i) {
      double& a = x[static_cast<size_t>(shape_.interleaved ? 2 * i : i)];
      double& b = x[static_cast<size_t>(shape_.interleaved ? 2 * i + 1 : i + pairs)];
      const double rotated = a * double{table[2 * i]} - b * double{table[2 * i + 1]};
      b = b * double{table[2 * i]} + a * double{table[2 * i + 1]};
      a = rotated;
    }
    // A handful of roundings of values up to 20.
    for (size_t d = 0; d < x.size(); ++d)
      ASSERT_NEAR(after_[static_cast<size_t>(begin) + d], x[d], 1e-5)
          << "row " << row << " head " << head << " d " << d;
  }

  RopeShape shape_;
  CacheGeometry geometry_;
  std::vector<std::byte> pool_;
  std::vector<float> before_, after_, cos_sin_, q_weight_, k_weight_;
  std::vector<int32_t> positions_;
  std::vector<int64_t> slots_;
  StepBatch batch_;
  RopeAndWriteKvParams params_;
  absl::Status status_;
};

TEST(RopeAndWriteKv, MatchesTheReference) {
  for (const bool interleaved : {false, true})
    for (const bool norms : {false, true})
      for (const int32_t rotary_dim : {64, 32, 2, 0}) {
        RopeShape shape;
        shape.interleaved = interleaved;
        shape.norms = norms;
        shape.rotary_dim = rotary_dim;
        RopeRun(shape, 9, 1).CheckAll();
      }
}

TEST(RopeAndWriteKv, FillsEveryLayout) {
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kI8, DType::kF8E4M3, DType::kF8E5M2})
    for (const int32_t block_size : {8, 16, 32, 64})
      for (const int32_t head_dim : {8, 16, 24, 48, 64, 80, 96, 128, 256}) {
        SCOPED_TRACE(std::string(Info(dtype).name.data()) + " block " + std::to_string(block_size) +
                     " dim " + std::to_string(head_dim));
        RopeShape shape;
        shape.dtype = dtype;
        shape.block_size = block_size;
        shape.head_dim = head_dim;
        shape.rotary_dim = head_dim / 2;
        shape.norms = true;
        RopeRun(shape, 21, 2).CheckAll();
      }
}

TEST(RopeAndWriteKv, WritesNothingBesideItsSlots) {
  RopeShape shape;
  shape.dtype = DType::kF32;
  const RopeRun run(shape, 5, 1);
  // A written float may hold bytes of 0xff itself, but never more bytes than were written.
  const size_t bytes = 5u * 2u * 2u * 64u * 4u;
  EXPECT_LE(run.BytesWritten(), bytes);
  EXPECT_GE(run.BytesWritten(), bytes * 9 / 10);
}

TEST(RopeAndWriteKv, GivesTheSameBitsOnAnyNumberOfThreads) {
  RopeShape shape;
  shape.norms = true;
  const RopeRun one(shape, 100, 1);
  for (const int threads : {2, 3}) {
    const RopeRun more(shape, 100, threads);
    EXPECT_EQ(
        std::memcmp(one.after().data(), more.after().data(), one.after().size() * sizeof(float)),
        0);
    EXPECT_EQ(one.pool(), more.pool());
  }
}

TEST(RopeAndWriteKv, RoundsToNearestEven) {
  // Halfway cases, subnormals and infinity of both 16-bit formats, in V, which is not rotated.
  const std::vector<float> values = {1.00390625f,    1.01171875f, -1.00390625f, 1.00048828125f,
                                     1.00146484375f, 3.0e-8f,     9.0e-8f,      INFINITY};
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const CacheGeometry geometry = CacheGeometry::Create({1, 1, 8}, dtype, 8).value();
    std::vector<std::byte> pool(static_cast<size_t>(geometry.PoolBytes(1)));
    std::vector<float> qkv(24, 1.0f);
    std::copy(values.begin(), values.end(), qkv.begin() + 16);
    const int32_t position = 0;
    const int64_t slot = 3;
    StepBatch batch;
    batch.num_rows = 1;
    batch.positions = &position;
    batch.slots = &slot;
    RopeAndWriteKvParams params;
    params.qkv = {qkv.data(), 1, 24, 24};
    params.num_heads = 1;
    params.num_kv_heads = 1;
    params.head_dim = 8;
    params.batch = &batch;
    params.pool = {pool.data(), geometry};
    ASSERT_TRUE(MakeCpu(1)->RopeAndWriteKv(params).ok());
    const KvLayout layout = KvLayout::Create(geometry).value();
    for (int32_t d = 0; d < 8; ++d) {
      const float x = values[static_cast<size_t>(d)];
      const float expected = std::isinf(x) ? x : RoundTo(dtype, x);
      EXPECT_EQ(Decode(dtype, pool.data() + layout.ValueOffset(3, d)), expected) << x;
    }
  }
}

TEST(RopeAndWriteKv, RefusesWhatItCannotPlace) {
  const auto backend = MakeCpu(1);
  const CacheGeometry geometry = CacheGeometry::Create({1, 1, 8}, DType::kF32, 8).value();
  std::vector<std::byte> pool(static_cast<size_t>(geometry.PoolBytes(2)));
  std::vector<float> qkv(24), cos_sin(10 * 8);
  int32_t position = 9;
  int64_t slot = 3;
  StepBatch batch;
  batch.num_rows = 1;
  batch.positions = &position;
  batch.slots = &slot;
  RopeAndWriteKvParams good;
  good.qkv = {qkv.data(), 1, 24, 24};
  good.num_heads = 1;
  good.num_kv_heads = 1;
  good.head_dim = 8;
  good.rope = {cos_sin.data(), 8, 10, false};
  good.batch = &batch;
  good.pool = {pool.data(), geometry};
  ASSERT_TRUE(backend->RopeAndWriteKv(good).ok());
  const auto code = [&](const RopeAndWriteKvParams& params) {
    return backend->RopeAndWriteKv(params).code();
  };
  position = 10;
  EXPECT_EQ(code(good), absl::StatusCode::kInvalidArgument);
  position = 9;
  slot = -1;
  EXPECT_EQ(code(good), absl::StatusCode::kInvalidArgument);
  slot = 3;
  RopeAndWriteKvParams bad = good;
  bad.rope.rotary_dim = 10;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.layer = 1;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
  bad = good;
  bad.qkv.cols = 23;
  EXPECT_EQ(code(bad), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace octavo
