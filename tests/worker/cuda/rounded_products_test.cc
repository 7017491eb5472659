// Products of the backend in fp16 and fp8: weights as it packs them, and its ops over them.
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/cuda/bfloat16_testing.h"
#include "tests/worker/cuda/e4m3_testing.h"
#include "worker/cuda/cuda_backend.h"

namespace octavo::cuda {
namespace {

using ::testing::HasSubstr;

struct Under {
  const char* path;
  CudaBackendOptions options;
  // What rounding a factor may do to a term of a sum: half a unit of 11, 8 or 4 bits. e4m3 has the
  // same for numbers above 2^-6 of 448, below which the row's largest bounds it.
  double error;
};
const Under kAll[] = {{"cuda/fp16", {.dtype = DType::kF16}, 0x1p-11},
                      {"cuda/bf16/fp8", {.fp8_weights = true}, 0x1p-4},
                      {"cuda/fp16/fp8", {.dtype = DType::kF16, .fp8_weights = true}, 0x1p-4}};

class RoundedProductsTest : public ::testing::TestWithParam<Under> {
 protected:
  void SetUp() override {
    auto backend = CudaBackend::Create(GetParam().options);
    if (!backend.ok() && GetParam().options.fp8_weights)
      GTEST_SKIP() << "this card does not multiply e4m3";
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    EXPECT_EQ(backend_->numeric_path(), GetParam().path);
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
  std::vector<float> Normal(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random_);
    return values;
  }
  std::unique_ptr<LinearWeight> Pack(const std::vector<float>& values, int64_t rows, int64_t cols,
                                     bool gated = false, std::vector<float> bias = {}) {
    LinearSource source;
    source.gated = gated;
    source.bias = std::move(bias);
    for (int64_t part = 0, parts = gated ? 2 : 1; part < parts; ++part)
      source.parts.push_back(
          {"w", DType::kF32, rows / parts, cols,
           reinterpret_cast<const std::byte*>(values.data() + part * rows / parts * cols)});
    auto weight = backend_->PackLinear(source);
    EXPECT_TRUE(weight.ok()) << weight.status();
    return *std::move(weight);
  }

  std::mt19937 random_{5};
  std::vector<Buffer> buffers_;
  std::unique_ptr<CudaBackend> backend_;
};

INSTANTIATE_TEST_SUITE_P(All, RoundedProductsTest, ::testing::ValuesIn(kAll),
                         [](const auto& info) { return std::to_string(info.index); });

// Each term errs by the rounding of both factors; sums of random terms are far inside that.
TEST_P(RoundedProductsTest, LinearNormsGathersAndAdds) {
  const int64_t in = 96, out = 48;
  const std::vector<float> x = Normal(5 * in), norm = Normal(in), before = Normal(3 * out),
                           values = Normal(out * in), bias = Normal(out);
  const auto weight = Pack(values, out, in, false, bias);
  const bool fp8 = GetParam().options.fp8_weights;
  EXPECT_EQ(weight->bytes(), fp8 ? out * (in + 4) : out * in * 2);
  const std::vector<int32_t> row_ids = {4, 0, 2};
  LinearParams params;
  params.weight = weight.get();
  params.norm = {Upload(norm, 1).data, 1e-5f};
  params.x = Upload(x, 5);
  params.row_ids = row_ids.data();
  params.epilogue = Epilogue::kAdd;
  params.out = Upload(before, 3);
  const absl::Status status = backend_->Linear(params);
  ASSERT_TRUE(status.ok()) << status;
  const std::vector<float> got = Download(params.out);
  for (int64_t r = 0; r < 3; ++r) {
    const float* row = x.data() + row_ids[static_cast<size_t>(r)] * in;
    double squares = 0;
    for (int64_t k = 0; k < in; ++k) squares += double{row[k]} * row[k];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(in) + 1e-5);
    for (int64_t o = 0; o < out; ++o) {
      const auto at = static_cast<size_t>(r * out + o);
      double sum = double{before[at]} + bias[static_cast<size_t>(o)], magnitude = 1;
      for (int64_t k = 0; k < in; ++k) {
        const double term =
            row[k] * scale * norm[static_cast<size_t>(k)] * values[static_cast<size_t>(o * in + k)];
        sum += term;
        magnitude += std::abs(term);
      }
      ASSERT_NEAR(got[at], sum, magnitude * 2 * GetParam().error) << r << "," << o;
    }
  }
}

TEST_P(RoundedProductsTest, FeedForwardEqualsItsTwoProducts) {
  const int64_t hidden = 16, half = 32, rows = 1030;  // more than are kept at once
  const auto gate_up = Pack(Normal(2 * half * hidden), 2 * half, hidden, /*gated=*/true);
  const auto down = Pack(Normal(hidden * half), hidden, half);
  const std::vector<float> x = Normal(rows * hidden);
  FeedForwardParams params;
  params.gate_up = gate_up.get();
  params.norm = {Upload(Normal(hidden), 1).data, 1e-5f};
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

TEST_P(RoundedProductsTest, ANormTakenWithTheSumBeforeItIsTheSame) {
  const int64_t cols = 48, rows = 3;
  const auto weight = Pack(Normal(16 * cols), 16, cols);
  const std::vector<float> x = Normal(rows * cols), before = x;
  const RmsNorm norm = {Upload(Normal(cols), 1).data, 1e-5f};
  const RmsNorm next = {Upload(Normal(cols), 1).data, 1e-5f};
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

// The head, and a layer that is no multiple of 16, multiply in 16 bits; layers of its width then
// differ, and nothing is normed ahead for them.
TEST_P(RoundedProductsTest, LeaveTheHeadAndOddLayersInSixteenBits) {
  const int64_t cols = 48, rows = 2;
  const std::vector<float> values = Normal(24 * cols), x = Normal(rows * cols);
  const auto fits = Pack(values, 16, cols), odd = Pack(values, 24, cols);
  LinearSource source = {
      {{"head", DType::kF32, 16, cols, reinterpret_cast<const std::byte*>(values.data())}},
      {},
      false,
      true};
  const auto head = backend_->PackLinear(source);
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ((*head)->bytes(), 16 * cols * 2);
  EXPECT_EQ(odd->bytes(), 24 * cols * 2);
  const RmsNorm norm = {Upload(Normal(cols), 1).data, 1e-5f};
  std::vector<std::vector<float>> results;
  for (const bool ahead : {true, false}) {
    const Matrix sums = Upload(x, rows);
    ASSERT_TRUE(backend_->AddNormed({Upload(x, rows), norm, sums, ahead ? norm : RmsNorm{}}).ok());
    const Matrix y = Upload(std::vector<float>(static_cast<size_t>(rows * 24)), rows);
    ASSERT_TRUE(backend_->Linear({odd.get(), norm, sums, nullptr, Epilogue::kStore, y}).ok());
    results.push_back(Download(y));
  }
  EXPECT_EQ(results[0], results[1]);
}

// A row that no format holds is NaN in the end, which sampling refuses; its neighbours are not.
TEST_P(RoundedProductsTest, ARowBeyondTheFormatDoesNotBecomeNumbers) {
  const int64_t cols = 16;
  const auto weight = Pack(std::vector<float>(16 * 16, 1.0f), 16, cols);
  std::vector<float> x(2 * 16, 1.0f);
  x[3] = std::numeric_limits<float>::infinity();
  x[4] = -x[3];
  const Matrix y = Upload(std::vector<float>(2 * 16), 2);
  ASSERT_TRUE(
      backend_->Linear({weight.get(), {}, Upload(x, 2), nullptr, Epilogue::kStore, y}).ok());
  const std::vector<float> got = Download(y);
  for (size_t o = 0; o < 16; ++o) {
    EXPECT_TRUE(std::isnan(got[o]));
    EXPECT_NEAR(got[16 + o], 16.0f, 16 * 2 * GetParam().error);
  }
}

TEST_P(RoundedProductsTest, RefuseWeightsBeyondFp16ByName) {
  std::vector<float> values(16 * 16, 1.0f);
  values[5] = -70000.0f;
  const LinearSource source = {
      {{"blk.0.w", DType::kF32, 16, 16, reinterpret_cast<const std::byte*>(values.data())}},
      {},
      false,
      /*head=*/true};
  const auto packed = backend_->PackLinear(source);
  if (GetParam().options.dtype != DType::kF16) {
    EXPECT_TRUE(packed.ok()) << packed.status();
    return;
  }
  EXPECT_EQ(packed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(packed.status().message()),
              HasSubstr("weight blk.0.w has a magnitude of 70000; --dtype float16 ends at 65504"));
}

TEST(RoundedProducts, RefuseOptionsThatContradictEachOther) {
  for (const CudaBackendOptions& options :
       {CudaBackendOptions{.dtype = DType::kF16, .quantized_weights = true},
        CudaBackendOptions{.quantized_weights = true, .fp8_weights = true}})
    EXPECT_THAT(std::string(CudaBackend::Create(options).status().message()),
                HasSubstr("4 and 8 bits are multiplied with rows of bf16"));
  EXPECT_THAT(std::string(CudaBackend::Create({.dtype = DType::kF32}).status().message()),
              HasSubstr("no products of float32"));
}

}  // namespace
}  // namespace octavo::cuda
