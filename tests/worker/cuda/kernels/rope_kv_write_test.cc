// The kernel against the CPU backend's op: the same bits in q, in k and in both pools.
#include "worker/cuda/kernels/rope_kv_write.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/worker/cuda/kernels/kernel_testing.h"
#include "worker/cpu/cpu_backend.h"
#include "worker/cpu/kv_layout.h"

namespace octavo::cuda {
namespace {

using testing::HasSubstr;

constexpr int32_t kPositions = 70;
constexpr int32_t kLayer = 1;
constexpr float kEps = 1e-5f;

struct Shape {
  DType dtype = DType::kBF16;
  int32_t block_size = 16;
  int32_t head_dim = 64;
  int32_t rotary_dim = 64;
  bool interleaved = false;
  bool norms = false;
  int32_t num_heads = 3;
  int32_t num_kv_heads = 2;
  int32_t rows = 5;
  int64_t padding = 0;  // columns of qkv that belong to nobody
};

class RopeCase {
 public:
  explicit RopeCase(const Shape& shape) : shape_(shape) {
    geometry_ = CacheGeometry::Create({2, shape.num_kv_heads, shape.head_dim}, shape.dtype,
                                      shape.block_size)
                    .value();
    blocks_ = 2 * shape.rows / shape.block_size + 2;
    cols_ = int64_t{shape.num_heads + 2 * shape.num_kv_heads} * shape.head_dim + shape.padding;
    qkv_ = NormalFloats(static_cast<size_t>(shape.rows * cols_), 2, 21);
    cos_sin_ = NormalFloats(static_cast<size_t>(kPositions * std::max(shape.rotary_dim, 2)), 1, 22);
    for (float& value : cos_sin_) value = std::cos(value);
    q_weight_ = NormalFloats(static_cast<size_t>(shape.head_dim), 1, 23);
    k_weight_ = NormalFloats(static_cast<size_t>(shape.head_dim), 1, 24);
    std::mt19937_64 random(25);
    std::set<int64_t> used;
    while (slots_.size() < static_cast<size_t>(shape.rows)) {
      const auto slot =
          static_cast<int64_t>(random() % static_cast<uint64_t>(blocks_ * shape.block_size));
      if (!used.insert(slot).second) continue;
      slots_.push_back(slot);
      positions_.push_back(static_cast<int32_t>(random() % kPositions));
    }
  }

  std::vector<float>& qkv() { return qkv_; }
  int64_t cols() const { return cols_; }

  void Check() const {
    const DeviceStream stream;
    std::vector<float> cpu_qkv = qkv_;
    const std::vector<std::byte> cpu_pool = RunCpu(&cpu_qkv);
    const DeviceArray<float> qkv(qkv_), cos_sin(cos_sin_), q_weight(q_weight_), k_weight(k_weight_);
    const DeviceArray<int32_t> positions(positions_);
    const DeviceArray<int64_t> slots(slots_);
    const DeviceArray<std::byte> pool(
        std::vector<std::byte>(static_cast<size_t>(PoolBytes()), std::byte{0xa5}));
    RopeKvWriteArgs args;
    args.qkv = qkv.data();
    args.qkv_stride = cols_;
    args.rows = shape_.rows;
    args.num_heads = shape_.num_heads;
    args.kv = Layer(pool.data());
    if (shape_.norms) {
      args.q_norm = q_weight.data();
      args.k_norm = k_weight.data();
      args.q_eps = args.k_eps = kEps;
    }
    args.cos_sin = cos_sin.data();
    args.rotary_dim = shape_.rotary_dim;
    args.max_positions = kPositions;
    args.interleaved = shape_.interleaved;
    args.positions = positions.data();
    args.slots = slots.data();
    ASSERT_EQ(Finish(stream, LaunchRopeKvWrite(args, stream)), "");

    const std::vector<float> after = qkv.Get();
    for (size_t i = 0; i < after.size(); ++i)
      ASSERT_TRUE(after[i] == cpu_qkv[i] || (std::isnan(after[i]) && std::isnan(cpu_qkv[i])))
          << i << ": " << after[i] << " here, on the CPU " << cpu_qkv[i];
    ComparePools(pool.Get(), cpu_pool);
  }

 private:
  int64_t PoolBytes() const { return (blocks_ + 1) * geometry_.bytes_per_block(); }

  PagedKv Layer(std::byte* pool) const {
    PagedKv kv;
    kv.data = pool + geometry_.place(kLayer).index * geometry_.bytes_per_layer_block();
    kv.block_stride = geometry_.bytes_per_block();
    kv.dtype = shape_.dtype;
    kv.block_size = shape_.block_size;
    kv.num_kv_heads = shape_.num_kv_heads;
    kv.head_dim = shape_.head_dim;
    return kv;
  }

  std::vector<std::byte> RunCpu(std::vector<float>* qkv) const {
    CpuBackendOptions options;
    options.threads = 1;
    static CpuBackend* const backend = CpuBackend::Create(options).value().release();
    std::vector<std::byte> pool(static_cast<size_t>(PoolBytes()), std::byte{0xa5});
    StepBatch batch;
    batch.num_rows = shape_.rows;
    batch.positions = positions_.data();
    batch.slots = slots_.data();
    RopeAndWriteKvParams params;
    params.qkv = {qkv->data(), shape_.rows, cols_, cols_};
    params.num_heads = shape_.num_heads;
    params.num_kv_heads = shape_.num_kv_heads;
    params.head_dim = shape_.head_dim;
    if (shape_.norms) {
      params.q_norm = {q_weight_.data(), kEps};
      params.k_norm = {k_weight_.data(), kEps};
    }
    params.rope = {cos_sin_.data(), shape_.rotary_dim, kPositions, shape_.interleaved};
    params.batch = &batch;
    params.pool = {pool.data(), geometry_};
    params.layer = kLayer;
    EXPECT_EQ(backend->RopeAndWriteKv(params), absl::OkStatus());
    return pool;
  }

  // Every element of the layer, written or not, and that nothing else was written.
  void ComparePools(const std::vector<std::byte>& ours, const std::vector<std::byte>& cpu) const {
    const KvLayout layout = KvLayout::Create(geometry_).value();
    std::vector<std::byte> rebuilt(ours.size(), std::byte{0xa5});
    const PagedKv kv = Layer(rebuilt.data());
    const auto bytes = static_cast<size_t>(StorageBytes(shape_.dtype, 1));
    for (const int64_t slot : slots_) {
      const auto in_block = static_cast<int32_t>(slot % shape_.block_size);
      std::byte* to = kv.data + slot / shape_.block_size * kv.block_stride;
      for (int32_t head = 0; head < shape_.num_kv_heads; ++head) {
        const std::byte* piece = cpu.data() + slot / shape_.block_size * layout.block_stride() +
                                 layout.PieceOffset(kLayer, head);
        for (int32_t d = 0; d < shape_.head_dim; ++d) {
          std::memcpy(to + ElementOffset(kv, kKeys, head, in_block, d),
                      piece + layout.KeyOffset(in_block, d), bytes);
          std::memcpy(to + ElementOffset(kv, kValues, head, in_block, d),
                      piece + layout.ValueOffset(in_block, d), bytes);
        }
        if (shape_.dtype != DType::kI8) continue;
        std::memcpy(to + ScaleOffset(kv, kKeys, head, in_block),
                    piece + layout.KeyScaleOffset(in_block), 2);
        std::memcpy(to + ScaleOffset(kv, kValues, head, in_block),
                    piece + layout.ValueScaleOffset(in_block), 2);
      }
    }
    for (size_t i = 0; i < ours.size(); ++i)
      ASSERT_EQ(ours[i], rebuilt[i]) << "byte " << i << " of the pool";
  }

  Shape shape_;
  CacheGeometry geometry_;
  int64_t blocks_ = 0;
  int64_t cols_ = 0;
  std::vector<float> qkv_, cos_sin_, q_weight_, k_weight_;
  std::vector<int32_t> positions_;
  std::vector<int64_t> slots_;
};

constexpr DType kTypes[] = {DType::kBF16, DType::kF16, DType::kI8, DType::kF8E4M3, DType::kF8E5M2};

std::string Describe(const Shape& shape) {
  return testing::PrintToString(std::string(Info(shape.dtype).name)) + " block " +
         std::to_string(shape.block_size) + " dim " + std::to_string(shape.head_dim) + " rotary " +
         std::to_string(shape.rotary_dim) + (shape.interleaved ? " interleaved" : "") +
         (shape.norms ? " norms" : "");
}

TEST(RopeKvWrite, WritesTheBitsOfTheCpuBackend) {
  for (const DType dtype : kTypes)
    for (const int32_t head_dim : {16, 64, 80, 96, 128, 256})
      for (const int32_t block_size : {8, 16, 64}) {
        Shape shape;
        shape.dtype = dtype;
        shape.head_dim = head_dim;
        shape.block_size = block_size;
        shape.rotary_dim = head_dim == 80 ? 24 : head_dim;
        shape.norms = block_size != 16;
        SCOPED_TRACE(Describe(shape));
        RopeCase(shape).Check();
      }
}

TEST(RopeKvWrite, RotatesAnyPartOfAHeadEitherWay) {
  for (const bool interleaved : {false, true})
    for (const bool norms : {false, true})
      for (const int32_t rotary_dim : {64, 32, 20, 2, 0}) {
        Shape shape;
        shape.interleaved = interleaved;
        shape.norms = norms;
        shape.rotary_dim = rotary_dim;
        SCOPED_TRACE(Describe(shape));
        RopeCase(shape).Check();
      }
}

TEST(RopeKvWrite, TakesRowsThatAreNotAligned) {
  for (const int64_t padding : {0, 1, 4}) {
    Shape shape;
    shape.padding = padding;
    shape.rows = 1;
    shape.norms = true;
    RopeCase(shape).Check();
  }
  Shape one;
  one.num_heads = 0;
  one.num_kv_heads = 1;
  one.rows = 1;
  RopeCase(one).Check();
}

// Halfway cases, subnormals, what is too large, infinities, zeros: in V, which is not rotated.
TEST(RopeKvWrite, RoundsWhatIsHardToRound) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> hard = {
      1.00390625f, 1.01171875f, -1.00390625f, 1.00048828125f, 3.0e-8f,    9.0e-8f, -0.0f,   448.0f,
      464.0f,      465.0f,      -57344.0f,    61440.0f,       65519.0f,   65520.f, 1.0625f, 1.1875f,
      0x1p-9f,     0x1p-10f,    0x1.8p-10f,   0x1p-17f,       0x1.8p-17f, 1e-45f,  3.4e38f, 0.0f};
  for (const DType dtype : kTypes)
    for (const int variant : {0, 1, 2, 3}) {
      Shape shape;
      shape.dtype = dtype;
      shape.head_dim = 64;
      shape.num_heads = 1;
      shape.num_kv_heads = 1;
      shape.rows = 2;
      SCOPED_TRACE(Describe(shape));
      RopeCase hard_case(shape);
      for (size_t row = 0; row < 2; ++row)
        for (size_t d = 0; d < 64; ++d) {
          float& v = hard_case.qkv()[row * static_cast<size_t>(hard_case.cols()) + 128 + d];
          v = hard[(d + 7 * row) % hard.size()];
          // Rows whose largest is small, all zeros, and one with an infinity.
          if (variant == 1) v = std::clamp(v, -2.0f, 2.0f);
          if (variant == 2) v = row == 0 ? 0.0f : std::clamp(v, -1e-6f, 1e-6f);
          if (variant == 3 && d == 5) v = -kInfinity;
        }
      hard_case.Check();
    }
}

TEST(RopeKvWrite, MarksRowsWithNan) {
  for (const DType dtype : kTypes) {
    Shape shape;
    shape.dtype = dtype;
    shape.num_heads = 1;
    shape.num_kv_heads = 1;
    shape.rows = 1;
    SCOPED_TRACE(Describe(shape));
    RopeCase nan_case(shape);
    nan_case.qkv()[128 + 9] = std::numeric_limits<float>::quiet_NaN();
    nan_case.qkv()[128 + 40] = -std::numeric_limits<float>::quiet_NaN();
    nan_case.Check();
  }
}

TEST(RopeKvWrite, RefusesWhatItCannotPlace) {
  const DeviceStream stream;
  const DeviceArray<float> qkv(size_t{256}), table(size_t{640});
  const DeviceArray<int32_t> positions(std::vector<int32_t>{0});
  const DeviceArray<int64_t> slots(std::vector<int64_t>{0});
  const DeviceArray<std::byte> pool(size_t{1} << 16);
  RopeKvWriteArgs good;
  good.qkv = qkv.data();
  good.qkv_stride = 192;
  good.rows = 1;
  good.num_heads = 1;
  good.kv = {pool.data(), 1 << 13, DType::kBF16, 16, 1, 64};
  good.cos_sin = table.data();
  good.rotary_dim = 64;
  good.max_positions = 10;
  good.positions = positions.data();
  good.slots = slots.data();
  const auto refusal = [&](const RopeKvWriteArgs& args) {
    return std::string(LaunchRopeKvWrite(args, stream).message());
  };
  RopeKvWriteArgs bad = good;
  bad.kv.head_dim = 264;
  EXPECT_THAT(refusal(bad), HasSubstr("head_dim is 264; it must be between 8 and 256"));
  bad = good;
  bad.kv.dtype = DType::kI8;
  bad.kv.head_dim = bad.rotary_dim = 24;
  EXPECT_THAT(refusal(bad), HasSubstr("bytes of a row of the pool is 24"));
  bad = good;
  bad.rotary_dim = 66;
  EXPECT_THAT(refusal(bad), HasSubstr("rotary_dim is 66"));
  bad = good;
  bad.qkv_stride = 191;
  EXPECT_THAT(refusal(bad), HasSubstr("the stride of qkv is 191; it must be at least 192"));
  bad = good;
  bad.kv.data = pool.data() + 8;
  EXPECT_THAT(refusal(bad), HasSubstr("the pool is 8 bytes past a multiple of 16"));
  bad = good;
  bad.kv.dtype = DType::kF32;
  EXPECT_EQ(LaunchRopeKvWrite(bad, stream).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace octavo::cuda
