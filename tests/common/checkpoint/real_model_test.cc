// SmolLM2-135M-Instruct.Q4_1.gguf, the model that the quickstart serves. Expected numbers come from
// gguf-py 0.19.0 (GGUFReader, quants.dequantize).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/dequantize.h"

namespace octavo {
namespace {

class RealModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const char* given = std::getenv("OCTAVO_MODEL");
    const std::string path =
        given ? given : OCTAVO_SOURCE_DIR "/build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    ASSERT_TRUE(std::ifstream(path).good())
        << path << " is missing: run tools/fetch_model.sh, or set OCTAVO_MODEL";
    auto opened = Checkpoint::Open(path);
    ASSERT_TRUE(opened.ok()) << opened.status();
    model_ = opened->release();
  }
  static void TearDownTestSuite() { delete std::exchange(model_, nullptr); }
  void SetUp() override { ASSERT_NE(model_, nullptr) << "the model could not be opened"; }

  static TensorRef Get(TensorRole role, int32_t layer = -1) {
    auto tensor = model_->Tensor(role, layer);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    return tensor.ok() ? *tensor : TensorRef{};
  }

  // Elements 0, 1, 17 and the last of a row, and the row's sum in double precision.
  static void ExpectRow(const TensorRef& tensor, int64_t row, float first, float second,
                        float seventeenth, float last, double sum) {
    ASSERT_NE(tensor.data, nullptr);
    std::vector<float> values(static_cast<size_t>(tensor.cols()));
    const std::byte* start = tensor.data + row * StorageBytes(tensor.dtype, tensor.cols());
    ASSERT_TRUE(DequantizeRow(tensor.dtype, start, tensor.cols(), values.data()).ok());
    EXPECT_EQ(values[0], first);
    EXPECT_EQ(values[1], second);
    EXPECT_EQ(values[17], seventeenth);
    EXPECT_EQ(values.back(), last);
    double total = 0;
    for (float value : values) total += value;
    EXPECT_NEAR(total, sum, 1e-9);
  }

  static Checkpoint* model_;
};

Checkpoint* RealModel::model_ = nullptr;

TEST_F(RealModel, HasTheConfigurationOfSmolLM2) {
  const ModelConfig& config = model_->config();
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.name, "Smollm2 135M 8k Lc100K Mix1 Ep2");
  EXPECT_EQ(config.num_layers, 30);
  EXPECT_EQ(config.hidden_size, 576);
  EXPECT_EQ(config.intermediate_size, 1536);
  EXPECT_EQ(config.num_heads, 9);
  EXPECT_EQ(config.num_kv_heads, 3);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.vocab_size, 49152);
  EXPECT_EQ(config.max_positions, 8192);
  EXPECT_EQ(config.norm_eps, 9.999999747378752e-06f);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_FALSE(config.qkv_bias || config.output_bias || config.mlp_bias || config.qk_norm);
  EXPECT_TRUE(config.layer_windows.empty());
  EXPECT_EQ(config.rope.theta, 100000.0f);
  EXPECT_EQ(config.rope.rotary_dim, 64);
  EXPECT_EQ(config.rope.style, RopeStyle::kInterleaved);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kNone);
  EXPECT_TRUE(config.rope.frequency_factors.empty());
}

TEST_F(RealModel, HasTheTokenizerOfSmolLM2) {
  const TokenizerSpec& spec = model_->tokenizer();
  EXPECT_EQ(spec.tokens.size(), 49152u);
  EXPECT_EQ(spec.merges.size(), 48900u);
  EXPECT_EQ(spec.merges[0], (std::pair<std::string, std::string>("Ġ", "t")));
  ASSERT_EQ(spec.added.size(), 17u);
  for (size_t i = 0; i < spec.added.size(); ++i) {
    EXPECT_EQ(spec.added[i].id, static_cast<TokenId>(i));
    EXPECT_TRUE(spec.added[i].special);
  }
  EXPECT_EQ(spec.added[1].text, "<|im_start|>");
  EXPECT_EQ(spec.added[16].text, "<empty_output>");
  EXPECT_EQ(spec.pre_name, "smollm");
  EXPECT_EQ(spec.bos_id, 1);
  EXPECT_EQ(spec.eos_ids, std::vector<TokenId>{2});
  EXPECT_FALSE(spec.add_bos);
  EXPECT_FALSE(spec.ignore_merges);
  EXPECT_FALSE(spec.normalize_nfc);
  EXPECT_EQ(spec.chat_template.substr(0, 33), "{% for message in messages %}{% i");
}

TEST_F(RealModel, Has272TensorsOfTheExpectedTypes) {
  int counted = 0;
  int64_t bytes = 0;
  for (int role = 0; role <= static_cast<int>(TensorRole::kDownBias); ++role) {
    if (static_cast<TensorRole>(role) == TensorRole::kOutput) continue;  // the embedding, tied
    const bool per_layer = role >= static_cast<int>(TensorRole::kAttentionNorm);
    for (int layer = 0; layer < (per_layer ? 30 : 1); ++layer) {
      const auto tensor = model_->Tensor(static_cast<TensorRole>(role), layer);
      if (!tensor.ok()) {
        EXPECT_TRUE(absl::IsNotFound(tensor.status())) << tensor.status();
        continue;
      }
      ++counted;
      bytes += tensor->bytes;
      EXPECT_EQ(tensor->dtype, tensor->shape.size() == 1 ? DType::kF32
                               : role == 0               ? DType::kQ8_0
                                                         : DType::kQ4_1);
    }
  }
  EXPECT_EQ(counted, 272);
  EXPECT_EQ(bytes, 30081024 + 66355200 + 140544);
  EXPECT_EQ(model_->tensor_bytes(), bytes);
}

TEST_F(RealModel, DequantizesRowsAsGgufPyDoes) {
  ExpectRow(Get(TensorRole::kTokenEmbedding), 0, -0x1.b468p-4f, 0x1.0e28p-5f, 0x1.56e4p-4f,
            0x1.e78p-6f, -0x1.2086a8p+1);
  ExpectRow(Get(TensorRole::kTokenEmbedding), 28120, -0x1.d3cp-8f, 0x1.5032p-4f, 0x1.7fb38p-2f,
            0x1.434cp-5f, 0x1.31ec3p+0);
  ExpectRow(Get(TensorRole::kQuery, 0), 0, -0x1.8a8p-4f, 0x1.424p-3f, 0x1.23p-2f, 0x1.fap-4f,
            0x1.01dcp+0);
  ExpectRow(Get(TensorRole::kDown, 29), 575, -0x1.d56p-3f, -0x1.408p-5f, -0x1.4cp-2f, 0x1.dp-5f,
            -0x1.4eb78p+2);
  ExpectRow(Get(TensorRole::kKey, 7), 191, 0x1.2ffp-1f, 0x1.aecp-3f, 0x1.d5p-4f, -0x1.bfp-5f,
            -0x1.3d84p+1);
  ExpectRow(Get(TensorRole::kOutputNorm), 0, 0x1.c2p+0f, 0x1.d2p+0f, -0x1.42p+0f, 0x1.fcp+0f,
            0x1.039540p+10);
  ExpectRow(Get(TensorRole::kAttentionNorm, 11), 0, 0x1.82p-4f, 0x1.1ap-2f, 0x1.2ap-2f, 0x1.3p-2f,
            0x1.12508p+7);
}

TEST_F(RealModel, TiesTheOutputToTheEmbedding) {
  const TensorRef output = Get(TensorRole::kOutput);
  EXPECT_EQ(output.name, "token_embd.weight");
  EXPECT_EQ(output.data, Get(TensorRole::kTokenEmbedding).data);
  EXPECT_EQ(output.rows(), 49152);
  EXPECT_EQ(output.cols(), 576);
}

TEST_F(RealModel, RefusesALayerThatDoesNotExist) {
  for (int32_t layer : {-1, 30}) {
    const absl::Status status = model_->Tensor(TensorRole::kQuery, layer).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("the model has 30 layers"), absl::string_view::npos) << status;
  }
}

TEST_F(RealModel, HasADigestOfSixtyFourHexDigits) {
  EXPECT_EQ(model_->digest().size(), 64u);
  EXPECT_EQ(model_->digest().find_first_not_of("0123456789abcdef"), std::string::npos);
}

}  // namespace
}  // namespace octavo
