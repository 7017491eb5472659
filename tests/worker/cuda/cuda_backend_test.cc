// The backend's own part: memory, copies, errors, and how its ops put the kernels together.
#include "worker/cuda/cuda_backend.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/checkpoint/dequantize.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/cuda/bfloat16_testing.h"
#include "tests/worker/cuda/stored_weights_testing.h"

namespace octavo::cuda {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

class CudaBackendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto backend = CudaBackend::Create({});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }
  Matrix Upload(const std::vector<float>& values, int64_t rows) {
    const auto cols = static_cast<int64_t>(values.size()) / rows;
    const size_t bytes = values.size() * sizeof(float);
    buffers_.push_back(*backend_->Allocate(bytes));
    EXPECT_TRUE(backend_->CopyToDevice(buffers_.back().data(), values.data(), bytes).ok());
    return {buffers_.back().as<float>(), rows, cols, cols};
  }
  std::vector<float> Download(const Matrix& matrix) {
    std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.cols));
    EXPECT_TRUE(
        backend_->CopyToHost(values.data(), matrix.data, values.size() * sizeof(float)).ok());
    return values;
  }
  std::vector<float> Normal(size_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  // Stored as bf16, so that packing changes nothing.
  std::unique_ptr<LinearWeight> Pack(const std::vector<uint16_t>& bits, int64_t rows, int64_t cols,
                                     bool gated = false) {
    LinearSource source;
    source.gated = gated;
    const int64_t parts = gated ? 2 : 1;
    for (int64_t part = 0; part < parts; ++part)
      source.parts.push_back(
          {"w", DType::kBF16, rows / parts, cols,
           reinterpret_cast<const std::byte*>(bits.data() + part * (rows / parts) * cols)});
    auto weight = backend_->PackLinear(source);
    EXPECT_TRUE(weight.ok()) << weight.status();
    return *std::move(weight);
  }

  std::mt19937 random_{5};
  std::vector<Buffer> buffers_;
  std::unique_ptr<CudaBackend> backend_;
};

// Sum of the products of row r of x, normed and rounded to bf16 when `norm` is set, with row o.
double Product(const std::vector<float>& x, const std::vector<uint16_t>& weight, size_t cols,
               size_t r, size_t o, const float* norm) {
  double squares = 0;
  for (size_t k = 0; k < cols; ++k) squares += double{x[r * cols + k]} * x[r * cols + k];
  const double scale = norm ? 1 / std::sqrt(squares / static_cast<double>(cols) + 1e-5) : 1;
  double sum = 0;
  for (size_t k = 0; k < cols; ++k)
    sum += x[r * cols + k] * scale * (norm ? norm[k] : 1.0f) * FromBFloat16(weight[o * cols + k]);
  return sum;
}

TEST_F(CudaBackendTest, NamesItsDeviceAndPath) {
  EXPECT_THAT(backend_->device_name(), HasSubstr("cuda:0 sm_"));
  EXPECT_EQ(backend_->numeric_path(), "cuda/bf16");
}

TEST_F(CudaBackendTest, RefusesADeviceThatIsNotThere) {
  const auto status = CudaBackend::Create({.device = 9}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--device is 9; this process sees 1 CUDA"));
}

TEST_F(CudaBackendTest, SaysWhatDoesNotFit) {
  const auto memory = backend_->Memory();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_TRUE(memory->dedicated);
  const auto status = backend_->Allocate(static_cast<size_t>(memory->free_bytes) + kMiB).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(std::to_string(memory->free_bytes) + " of " +
                        std::to_string(memory->total_bytes) + " are free"));
  EXPECT_TRUE(backend_->Allocate(kMiB).ok());  // the error is not sticky
}

TEST_F(CudaBackendTest, CopiesMoreThanTheStagingRingHolds) {
  std::vector<uint32_t> values(Staging::kSlotBytes * (Staging::kSlots + 3) / 4 + 5);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint32_t>(i * 2654435761u);
  const size_t bytes = values.size() * 4;
  auto buffer = backend_->Allocate(bytes);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  std::vector<uint32_t> source = values, back(values.size());
  ASSERT_TRUE(backend_->CopyToDevice(buffer->data(), source.data(), bytes).ok());
  std::fill(source.begin(), source.end(), 0u);  // the copy has taken what it needs
  ASSERT_TRUE(backend_->CopyToHost(back.data(), buffer->data(), bytes).ok());
  EXPECT_EQ(back, values);
}

TEST_F(CudaBackendTest, SwapsFromAnotherThreadBesideCopies) {
  constexpr size_t kBytes = 64 << 10;
  auto host = backend_->AllocateHost(kBytes);
  auto device = backend_->Allocate(2 * kBytes);
  ASSERT_TRUE(host.ok() && device.ok());
  std::memset(host->data(), 0x5A, kBytes);
  std::thread swapper([&] {
    EXPECT_TRUE(backend_->SwapIn(device->data(), host->data(), kBytes).ok());
    std::memset(host->data(), 0, kBytes);
    EXPECT_TRUE(backend_->SwapOut(host->data(), device->data(), kBytes).ok());
  });
  const std::vector<uint8_t> other(kBytes, 7);
  EXPECT_TRUE(backend_->CopyToDevice(device->data() + kBytes, other.data(), kBytes).ok());
  swapper.join();
  EXPECT_TRUE(backend_->Synchronize().ok());
  for (size_t i = 0; i < kBytes; ++i) ASSERT_EQ(host->data()[i], std::byte{0x5A}) << i;
}

// bf16 inputs have 8 bits: a sum of K products errs by some 2^-9 of the root of its squares.
TEST_F(CudaBackendTest, LinearNormsGathersAndAdds) {
  const int64_t in = 96, out = 40;
  const std::vector<float> x = Normal(5 * 96), norm = Normal(96), before = Normal(3 * 40);
  const auto bits = RandomBFloat16(40 * 96, random_);
  const auto weight = Pack(bits, out, in);
  const Matrix device_norm = Upload(norm, 1), y = Upload(before, 3);
  const std::vector<int32_t> row_ids = {4, 0, 2};
  LinearParams params;
  params.weight = weight.get();
  params.norm = {device_norm.data, 1e-5f};
  params.x = Upload(x, 5);
  params.row_ids = row_ids.data();
  params.epilogue = Epilogue::kAdd;
  params.out = y;
  const absl::Status status = backend_->Linear(params);
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<float> got = Download(y);
  for (size_t r = 0; r < 3; ++r)
    for (size_t o = 0; o < 40; ++o) {
      const double sum = Product(x, bits, 96, static_cast<size_t>(row_ids[r]), o, norm.data());
      ASSERT_NEAR(got[r * 40 + o], before[r * 40 + o] + sum, 0.15) << r << "," << o;
    }
}

TEST_F(CudaBackendTest, GatedLinearWorksInPiecesOfRows) {
  const int64_t in = 16, half = 8, rows = 1030;  // more than are kept at once
  const std::vector<float> x = Normal(static_cast<size_t>(rows * in));
  const auto bits = RandomBFloat16(static_cast<size_t>(2 * half * in), random_);
  const auto weight = Pack(bits, 2 * half, in, /*gated=*/true);
  LinearParams params;
  params.weight = weight.get();
  params.x = Upload(x, rows);
  params.epilogue = Epilogue::kSiluGate;
  params.out = Upload(std::vector<float>(static_cast<size_t>(rows * half)), rows);
  const absl::Status status = backend_->Linear(params);
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<float> got = Download(params.out);
  for (const size_t r : {size_t{0}, size_t{1023}, size_t{1024}, size_t{1029}})
    for (size_t o = 0; o < 8; ++o) {
      const double gate = Product(x, bits, 16, r, o, nullptr);
      const double up = Product(x, bits, 16, r, o + 8, nullptr);
      const double expected = gate / (1 + std::exp(-gate)) * up;
      ASSERT_NEAR(got[r * 8 + o], expected, 0.03 * (1 + std::abs(expected) + std::abs(up)))
          << r << "," << o;
    }
}

TEST_F(CudaBackendTest, FeedForwardEqualsItsTwoProducts) {
  const int64_t hidden = 24, half = 20, rows = 1030;  // more than are kept at once
  const auto up_bits = RandomBFloat16(static_cast<size_t>(2 * half * hidden), random_);
  const auto down_bits = RandomBFloat16(static_cast<size_t>(hidden * half), random_);
  const auto gate_up = Pack(up_bits, 2 * half, hidden, /*gated=*/true);
  const auto down = Pack(down_bits, hidden, half);
  const std::vector<float> x = Normal(static_cast<size_t>(rows * hidden));
  FeedForwardParams params;
  params.gate_up = gate_up.get();
  params.norm = {Upload(Normal(static_cast<size_t>(hidden)), 1).data, 1e-5f};
  params.gate = Epilogue::kGeluGate;
  params.gated = Upload(std::vector<float>(static_cast<size_t>(rows * half)), rows);
  params.down = down.get();
  std::vector<std::vector<float>> results;
  for (const bool fused : {true, false}) {
    params.x = params.out = Upload(x, rows);
    const absl::Status status =
        fused ? backend_->FeedForward(params) : backend_->Backend::FeedForward(params);
    ASSERT_TRUE(status.ok()) << status;
    results.push_back(Download(params.out));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results[0], x);
}

TEST_F(CudaBackendTest, ANormTakenWithTheSumBeforeItIsTheSame) {
  const int64_t cols = 40, rows = 3;
  const auto bits = RandomBFloat16(static_cast<size_t>(16 * cols), random_);
  const auto weight = Pack(bits, 16, cols);
  const std::vector<float> x = Normal(static_cast<size_t>(rows * cols)), before = x;
  const RmsNorm norm = {Upload(Normal(static_cast<size_t>(cols)), 1).data, 1e-5f};
  const RmsNorm next = {Upload(Normal(static_cast<size_t>(cols)), 1).data, 1e-5f};
  std::vector<std::vector<float>> results;
  for (const bool ahead : {true, false}) {
    const Matrix sums = Upload(before, rows);
    const Matrix y = Upload(std::vector<float>(static_cast<size_t>(rows * 16)), rows);
    ASSERT_TRUE(backend_->AddNormed({Upload(x, rows), norm, sums, ahead ? next : RmsNorm{}}).ok());
    ASSERT_TRUE(backend_->Linear({weight.get(), next, sums, nullptr, Epilogue::kStore, y}).ok());
    results.push_back(Download(y));
  }
  EXPECT_EQ(results[0], results[1]);
  for (size_t o = 0; o < 16; ++o) EXPECT_TRUE(std::isfinite(results[0][o])) << o;
}

// 130 rows go through bf16, 3 do not.
TEST_F(CudaBackendTest, QuantizedWeightsMultiplyFewRowsAndMany) {
  auto backend = CudaBackend::Create({.quantized_weights = true});
  ASSERT_TRUE(backend.ok()) << backend.status();
  backend_ = *std::move(backend);
  EXPECT_EQ(backend_->numeric_path(), "cuda/bf16/stored");
  const int64_t in = 96, out = 40;
  const std::vector<std::byte> stored = RandomStored(DType::kQ4_1, out, in, random_);
  std::vector<float> values(static_cast<size_t>(out * in));
  for (int64_t o = 0; o < out; ++o)
    ASSERT_TRUE(DequantizeRow(DType::kQ4_1, stored.data() + o * StorageBytes(DType::kQ4_1, in), in,
                              values.data() + o * in)
                    .ok());
  const auto weight = backend_->PackLinear({{{"w", DType::kQ4_1, out, in, stored.data()}}, {}});
  ASSERT_TRUE(weight.ok()) << weight.status();
  EXPECT_EQ((*weight)->bytes(), 64 * 128 / 32 * 20);  // whole blocks of 64 x 64
  for (const int64_t rows : {3, 130}) {
    const std::vector<float> x = Normal(static_cast<size_t>(rows * in));
    const Matrix y = Upload(std::vector<float>(static_cast<size_t>(rows * out)), rows);
    const absl::Status status =
        backend_->Linear({weight->get(), {}, Upload(x, rows), nullptr, Epilogue::kStore, y});
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<float> got = Download(y);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < out; ++o) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < in; ++k) {
          const double product = double{x[static_cast<size_t>(r * in + k)]} *
                                 double{values[static_cast<size_t>(o * in + k)]};
          sum += product;
          magnitude += std::abs(product);
        }
        // Rows of x, and for many rows weights too, are rounded to bf16: 2^-9 of each.
        ASSERT_NEAR(got[static_cast<size_t>(r * out + o)], sum, magnitude * 0x1p-8)
            << r << "," << o;
      }
  }
}

TEST_F(CudaBackendTest, RefusesShapesThatContradictTheWeight) {
  const auto bits = RandomBFloat16(8 * 16, random_);
  const auto weight = Pack(bits, 8, 16);
  LinearParams params;
  params.weight = weight.get();
  params.x = Upload(std::vector<float>(2 * 15), 2);
  params.out = Upload(std::vector<float>(2 * 8), 2);
  EXPECT_THAT(std::string(backend_->Linear(params).message()),
              HasSubstr("15 columns; the weight takes 16"));
  params.x = Upload(std::vector<float>(2 * 16), 2);
  const std::vector<int32_t> row_ids = {0, 2};
  params.row_ids = row_ids.data();
  EXPECT_THAT(std::string(backend_->Linear(params).message()),
              HasSubstr("row id 2 is not in 0..1"));
  params.row_ids = nullptr;
  params.epilogue = Epilogue::kSiluGate;
  EXPECT_THAT(std::string(backend_->Linear(params).message()), HasSubstr("plain linear weight"));
}

TEST_F(CudaBackendTest, RefusesCachesThatNoKernelReads) {
  LargestStep limits = {16, 4, 4, 64, 4, *CacheGeometry::Create({2, 2, 64}, DType::kF32, 16)};
  EXPECT_THAT(std::string(backend_->Reserve(limits).message()), HasSubstr("the cache is float32"));
  limits.geometry = *CacheGeometry::Create({2, 2, 48}, DType::kBF16, 16);
  EXPECT_THAT(std::string(backend_->Reserve(limits).message()), HasSubstr("head_dim is 48"));
}

TEST_F(CudaBackendTest, WhatItReservesCountsAsFree) {
  const LargestStep limits = {64, 4, 4,
                              64, 4, *CacheGeometry::Create({2, 2, 64}, DType::kBF16, 16)};
  const int64_t before = backend_->Memory()->free_bytes;
  ASSERT_TRUE(backend_->Reserve(limits).ok());
  // But for what allocations are rounded up by.
  EXPECT_NEAR(static_cast<double>(backend_->Memory()->free_bytes), static_cast<double>(before),
              16 * 1024);
}

}  // namespace
}  // namespace octavo::cuda
