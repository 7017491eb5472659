#include "worker/cpu/cpu_backend.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "common/checkpoint/dequantize.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using testing::HasSubstr;

std::unique_ptr<CpuBackend> MakeCpu(int threads) {
  CpuBackendOptions options;
  options.threads = threads;
  return CpuBackend::Create(options).value();
}

TEST(CpuBackend, NamesItsNumericPath) {
  CpuBackendOptions options;
  options.threads = 2;
  options.isa = Isa::kAvx2;
  EXPECT_EQ(CpuBackend::Create(options).value()->numeric_path(), "cpu/avx2/float32");
  options.activations = ActivationDType::kBFloat16;
  EXPECT_EQ(CpuBackend::Create(options).value()->numeric_path(), "cpu/avx2/bfloat16");
  options.isa.reset();
  const auto backend = CpuBackend::Create(options).value();
  EXPECT_EQ(backend->numeric_path(), absl::StrCat("cpu/", Name(DetectIsa()), "/bfloat16"));
  EXPECT_EQ(backend->device_name(), "cpu");
  EXPECT_EQ(backend->threads(), 2);
}

TEST(CpuBackend, RefusesImpossibleOptions) {
  CpuBackendOptions options;
  options.threads = -1;
  EXPECT_EQ(CpuBackend::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
  options.threads = CpuBackend::kMaxThreads + 1;
  EXPECT_EQ(CpuBackend::Create(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CpuBackend, AllocatesZeroedMemoryAndRefusesTooMuch) {
  const auto backend = MakeCpu(1);
  const DeviceMemory memory = backend->Memory().value();
  EXPECT_GT(memory.free_bytes, 0);
  EXPECT_GE(memory.total_bytes, memory.free_bytes);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, size_t{5} << 20}) {
    Buffer buffer = backend->Allocate(bytes).value();
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    for (size_t i = 0; i < bytes; i += 997) EXPECT_EQ(buffer.data()[i], std::byte{0});
    if (bytes > 0) buffer.data()[bytes - 1] = std::byte{1};
  }
  const absl::Status status =
      backend->Allocate(static_cast<size_t>(memory.total_bytes) + 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(memory.total_bytes)));
}

TEST(CpuBackend, CopiesToAndFromTheDevice) {
  const auto backend = MakeCpu(1);
  std::vector<int> host(1000), back(1000);
  std::iota(host.begin(), host.end(), 5);
  const Buffer buffer = backend->Allocate(4000).value();
  ASSERT_TRUE(backend->CopyToDevice(buffer.data(), host.data(), 4000).ok());
  ASSERT_TRUE(backend->CopyToHost(back.data(), buffer.data(), 4000).ok());
  EXPECT_EQ(back, host);
}

TEST(CpuBackend, CopiesWholeBlocksOfAllLayers) {
  const CacheGeometry geometry = CacheGeometry::Create({3, 2, 16}, DType::kBF16, 8).value();
  const auto bytes = static_cast<size_t>(geometry.bytes_per_block());
  std::vector<std::byte> pool(bytes * 6);
  for (size_t i = 0; i < pool.size(); ++i) pool[i] = static_cast<std::byte>(i * 7 + i / bytes);
  std::vector<std::byte> expected = pool;
  std::memcpy(expected.data() + 4 * bytes, pool.data() + bytes, bytes);
  std::memcpy(expected.data() + 5 * bytes, pool.data() + bytes, bytes);
  std::memcpy(expected.data() + 2 * bytes, pool.data() + 3 * bytes, bytes);
  for (const int threads : {1, 3}) {
    std::vector<std::byte> copied = pool;
    const CopyBlocksParams params{{{1, 4}, {1, 5}, {3, 2}}, {copied.data(), geometry}};
    ASSERT_TRUE(MakeCpu(threads)->CopyBlocks(params).ok());
    EXPECT_EQ(copied, expected);
  }
  const CopyBlocksParams bad{{{-1, 4}}, {pool.data(), geometry}};
  EXPECT_EQ(MakeCpu(1)->CopyBlocks(bad).code(), absl::StatusCode::kInvalidArgument);
}

TEST(CpuBackend, EmbedsRowsOfEveryStoredType) {
  const auto backend = MakeCpu(2);
  constexpr int64_t kRows = 40, kCols = 512;
  std::mt19937 random(1);
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,
        DType::kQ5_0, DType::kQ5_1, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    const int64_t row_bytes = StorageBytes(dtype, kCols);
    std::vector<std::byte> stored(static_cast<size_t>(kRows * row_bytes));
    for (std::byte& byte : stored) byte = static_cast<std::byte>(random());
    const auto weight =
        backend->PackEmbedding({"token_embd", dtype, kRows, kCols, stored.data()}).value();
    EXPECT_EQ(weight->rows(), kRows);
    EXPECT_EQ(weight->cols(), kCols);
    std::vector<TokenId> ids;  // more than one thread's worth
    for (int i = 0; i < 100; ++i) ids.push_back(static_cast<TokenId>(random() % kRows));
    std::vector<float> out(100 * (kCols + 3));
    EmbedParams params;
    params.weight = weight.get();
    params.token_ids = ids.data();
    params.out = {out.data(), 100, kCols, kCols + 3};
    ASSERT_TRUE(backend->Embed(params).ok());
    std::vector<float> row(kCols);
    for (size_t i = 0; i < ids.size(); ++i) {
      ASSERT_TRUE(DequantizeRow(dtype, stored.data() + ids[i] * row_bytes, kCols, row.data()).ok());
      ASSERT_EQ(
          std::memcmp(row.data(), params.out.row(static_cast<int64_t>(i)), kCols * sizeof(float)),
          0)
          << Info(dtype).name << " row " << ids[i];
    }
    params.scale = 3.7f;
    const std::vector<float> plain = out;
    ASSERT_TRUE(backend->Embed(params).ok());
    for (int64_t c = 0; c < kCols; ++c)
      EXPECT_EQ(std::bit_cast<uint32_t>(params.out.row(1)[c]),
                std::bit_cast<uint32_t>(plain[static_cast<size_t>(kCols + 3 + c)] * 3.7f));
    ids[57] = kRows;
    EXPECT_EQ(backend->Embed(params).code(), absl::StatusCode::kInvalidArgument);
    ids[57] = -1;
    EXPECT_THAT(std::string(backend->Embed(params).message()), HasSubstr("token id -1"));
  }
}

TEST(CpuBackend, EmbedsZerosForTokensOfOtherRanks) {
  const auto backend = MakeCpu(2);
  const std::vector<float> stored = {1, 2, 3, 4};  // tokens 5 and 6 of 9
  const auto weight = backend
                          ->PackEmbedding({"e", DType::kF32, 2, 2,
                                           reinterpret_cast<const std::byte*>(stored.data())})
                          .value();
  const std::vector<TokenId> ids = {6, 4, 5, 7, 8, 0};
  std::vector<float> out(12, -1.0f);
  EmbedParams params = {weight.get(), ids.data(), 2.0f, {out.data(), 6, 2, 2}};
  params.first_token = 5;
  params.vocab_size = 9;
  ASSERT_TRUE(backend->Embed(params).ok());
  EXPECT_THAT(out, testing::ElementsAre(6, 8, 0, 0, 2, 4, 0, 0, 0, 0, 0, 0));
  params.vocab_size = 8;
  EXPECT_THAT(std::string(backend->Embed(params).message()),
              HasSubstr("token id 8 is outside the vocabulary of 8"));
}

TEST(CpuBackend, PacksColumnsOfAWiderMatrix) {
  const auto backend = MakeCpu(1);
  // The middle columns of 2 x 4: {1, 2} and {5, 6}.
  const std::vector<float> stored = {0, 1, 2, 3, 4, 5, 6, 7};
  WeightView view = {"w", DType::kF32, 2, 2, reinterpret_cast<const std::byte*>(&stored[1])};
  view.row_bytes = 4 * sizeof(float);
  const auto weight = backend->PackLinear({.parts = {view}}).value();
  std::vector<float> x = {10, 1}, out(2);
  LinearParams params;
  params.weight = weight.get();
  params.x = {x.data(), 1, 2, 2};
  params.out = {out.data(), 1, 2, 2};
  ASSERT_TRUE(backend->Linear(params).ok());
  EXPECT_THAT(out, testing::ElementsAre(12, 56));
}

TEST(CpuBackend, RefusesEmbeddingsThatCannotBeRead) {
  const auto backend = MakeCpu(1);
  const std::vector<std::byte> data(4096);
  EXPECT_FALSE(backend->PackEmbedding({"e", DType::kI8, 4, 32, data.data()}).ok());
  EXPECT_FALSE(backend->PackEmbedding({"e", DType::kQ8_0, 4, 33, data.data()}).ok());
  EXPECT_FALSE(backend->PackEmbedding({"e", DType::kF32, 0, 32, data.data()}).ok());
  EXPECT_FALSE(backend->PackEmbedding({"e", DType::kF32, 4, 32, nullptr}).ok());
  EXPECT_EQ(backend->Embed({}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->Linear({}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(CpuBackend, CapsLogits) {
  const auto backend = MakeCpu(2);
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 60);
  for (const int64_t cols : {1, 15, 16, 333, 40001}) {
    std::vector<float> x(static_cast<size_t>(3 * cols));
    for (float& value : x) value = normal(random);
    x[0] = 1e-6f;
    std::vector<float> capped = x;
    ASSERT_TRUE(backend->Softcap({{capped.data(), 3, cols, cols}, 30.0f}).ok());
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = 30.0 * std::tanh(double{x[i]} / 30.0);
      EXPECT_NEAR(capped[i], expected, 8 * 0x1p-24 * std::fabs(expected)) << x[i];
    }
  }
  float one = 1;
  EXPECT_FALSE(backend->Softcap({{&one, 1, 1, 1}, 0.0f}).ok());
}

TEST(CpuBackend, RunsLinearLayers) {
  const auto backend = MakeCpu(2);
  std::vector<float> weights(48 * 64), x(3 * 64), out(3 * 48);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 13) - 6;
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  LinearSource source;
  source.parts = {{"w", DType::kF32, 48, 64, reinterpret_cast<std::byte*>(weights.data())}};
  const auto weight = backend->PackLinear(source).value();
  LinearParams params;
  params.weight = weight.get();
  params.x = {x.data(), 3, 64, 64};
  params.out = {out.data(), 3, 48, 48};
  ASSERT_TRUE(backend->Linear(params).ok());
  for (size_t row = 0; row < 3; ++row)
    for (size_t col = 0; col < 48; ++col) {
      float sum = 0;  // small integers: exact
      for (size_t k = 0; k < 64; ++k) sum += x[row * 64 + k] * weights[col * 64 + k];
      EXPECT_EQ(out[row * 48 + col], sum);
    }
}

}  // namespace
}  // namespace octavo
