#include "common/checkpoint/dummy_checkpoint.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "common/checkpoint/repeated_noise.h"
#include "tests/common/checkpoint/status_testing.h"

namespace octavo {
namespace {

using absl::StatusCode;

ModelShape Tiny() {
  ModelShape shape;
  shape.name = "tiny";
  shape.layers = 2;
  shape.hidden = 64;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 16;
  shape.ffn = 96;
  shape.vocab = 100;
  shape.max_positions = 128;
  shape.rope_theta = 10000;
  return shape;
}

float NumberAt(const std::byte* bytes, size_t index) {
  uint16_t half;
  std::memcpy(&half, bytes + 2 * index, 2);
  return std::bit_cast<float>(uint32_t{half} << 16);
}

TEST(RepeatedNoise, IsNormalSizedBoundedAndRepeats) {
  const auto noise = RepeatedNoise::Create(RepeatedNoise::kPeriodBytes * 2 + 1);
  ASSERT_TRUE(noise.ok()) << noise.status();
  const std::byte* const data = (*noise)->data();
  constexpr size_t kCount = 200'000;
  double sum = 0, squares = 0, largest = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double x = NumberAt(data, i);
    sum += x;
    squares += x * x;
    largest = std::max(largest, std::abs(x));
  }
  EXPECT_NEAR(sum / kCount, 0, 5 * RepeatedNoise::kSpread / std::sqrt(kCount));
  EXPECT_NEAR(std::sqrt(squares / kCount), RepeatedNoise::kSpread, 0.01 * RepeatedNoise::kSpread);
  EXPECT_LT(largest, 3.5 * RepeatedNoise::kSpread);
  for (const size_t period : {1, 2})
    EXPECT_EQ(std::memcmp(data, data + period * RepeatedNoise::kPeriodBytes, 4096), 0);
}

TEST(DummyCheckpoint, HasEveryTensorOfItsShapeAtAPlaceOfItsOwn) {
  const auto checkpoint = MakeDummyCheckpoint(Tiny());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const ModelConfig& config = (*checkpoint)->config();
  EXPECT_EQ(config.name, "tiny-dummy");
  std::set<const std::byte*> places;
  for (int32_t layer = 0; layer < config.num_layers; ++layer)
    for (const TensorRole role :
         {TensorRole::kQuery, TensorRole::kKey, TensorRole::kValue, TensorRole::kAttentionOutput,
          TensorRole::kGate, TensorRole::kUp, TensorRole::kDown}) {
      const auto tensor = (*checkpoint)->Tensor(role, layer);
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      EXPECT_TRUE(places.insert(tensor->data).second) << tensor->name;
      const auto count = static_cast<size_t>(tensor->rows() * tensor->cols());
      double squares = 0;
      for (size_t i = 0; i < count; ++i) squares += std::pow(NumberAt(tensor->data, i), 2);
      EXPECT_NEAR(std::sqrt(squares / static_cast<double>(count)), 0.02, 0.002) << tensor->name;
    }
  const auto norm = (*checkpoint)->Tensor(TensorRole::kFfnNorm, 1);
  ASSERT_TRUE(norm.ok()) << norm.status();
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(NumberAt(norm->data, i), 1.0f);
  EXPECT_EQ((*checkpoint)->Tensor(TensorRole::kOutput)->rows(), 100);
  // Embedding and head, and per layer q, k, v, o, three of the MLP, two norms; and the last norm.
  EXPECT_EQ((*checkpoint)->tensor_bytes(),
            2 * (2 * 100 * 64 + 2 * (64 * 16 * (4 + 2 + 2 + 4) + 3 * 64 * 96 + 2 * 64) + 64));
  EXPECT_EQ((*checkpoint)->tokenizer().tokens.size(), 100u);
}

TEST(DummyCheckpoint, IsTheSameEveryTimeAndTiesWhatItsShapeTies) {
  const auto first = MakeDummyCheckpoint(Tiny()), second = MakeDummyCheckpoint(Tiny());
  EXPECT_EQ((*first)->digest(), (*second)->digest());
  ModelShape tied = Tiny();
  tied.tied_embeddings = true;
  const auto other = MakeDummyCheckpoint(tied);
  EXPECT_NE((*first)->digest(), (*other)->digest());
  EXPECT_EQ((*other)->Tensor(TensorRole::kOutput)->data,
            (*other)->Tensor(TensorRole::kTokenEmbedding)->data);
}

TEST(DummyCheckpoint, TakesAddressesAndNotMemoryForLargeModels) {
  const auto checkpoint = OpenModel("llama-3-70b", "dummy");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_NEAR(static_cast<double>((*checkpoint)->tensor_bytes()), 141.1e9, 0.1e9);
  const auto down = (*checkpoint)->Tensor(TensorRole::kDown, 79);
  ASSERT_TRUE(down.ok()) << down.status();
  EXPECT_NE(NumberAt(down->data, static_cast<size_t>(down->bytes) / 2 - 1), 0.0f);
}

TEST(DummyCheckpoint, RefusesWhatTheDecoderDoesNotCompute) {
  ExpectRefused(OpenModel("opt-13b", "dummy").status(), StatusCode::kUnimplemented,
                {"opt-13b", "an MLP without a gate"});
  ExpectRefused(OpenModel("/models/llama", "dummy").status(), StatusCode::kNotFound,
                {"/models/llama", "llama-3-8b"});
  ExpectRefused(OpenModel("llama-3-8b", "noise").status(), StatusCode::kInvalidArgument,
                {"--load-format is noise"});
}

}  // namespace
}  // namespace octavo
