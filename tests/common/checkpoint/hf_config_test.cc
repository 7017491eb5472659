#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "common/checkpoint/hf_model.h"
#include "tests/common/checkpoint/file_builders.h"
#include "tests/common/checkpoint/status_testing.h"

namespace octavo {
namespace {

using absl::StatusCode;

absl::StatusOr<HfConfig> Read(absl::string_view family, absl::string_view extra) {
  return ReadHfConfig(TinyHfConfig(family, extra), "config.json");
}

ModelConfig Model(absl::string_view family, absl::string_view extra = "") {
  const auto config = Read(family, extra);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? config->model : ModelConfig{};
}

void ExpectFileRefused(absl::string_view extra, StatusCode code,
                       std::initializer_list<absl::string_view> phrases,
                       absl::string_view family = "llama") {
  ExpectRefused(Read(family, extra).status(), code, phrases);
}

TEST(ReadHfConfig, ReadsALlama) {
  const ModelConfig config = Model("llama");
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.hidden_size, 32);
  EXPECT_EQ(config.intermediate_size, 48);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.vocab_size, 12);
  EXPECT_EQ(config.max_positions, 128);
  EXPECT_EQ(config.norm_eps, 1e-5f);
  EXPECT_EQ(config.rope.style, RopeStyle::kHalfSplit);
  EXPECT_EQ(config.rope.theta, 10000.0f);
  EXPECT_EQ(config.rope.rotary_dim, 8);
  EXPECT_FALSE(config.qkv_bias || config.output_bias || config.mlp_bias || config.qk_norm);
}

TEST(ReadHfConfig, KnowsWhatEachFamilyAdds) {
  const ModelConfig biased = Model("llama", R"("attention_bias": true, "mlp_bias": true,)");
  EXPECT_TRUE(biased.qkv_bias && biased.output_bias && biased.mlp_bias);
  const ModelConfig qwen2 = Model("qwen2");
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.output_bias || qwen2.qk_norm);
  const ModelConfig qwen3 = Model("qwen3");
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.qkv_bias);
  EXPECT_EQ(qwen3.head_dim, 128);  // the class's default, not hidden_size / heads
  EXPECT_EQ(Model("qwen3", R"("head_dim": 16,)").head_dim, 16);
}

TEST(ReadHfConfig, ReadsSlidingWindows) {
  using Windows = std::vector<int32_t>;
  EXPECT_EQ(Model("mistral", R"("sliding_window": 24,)").layer_windows, (Windows{24, 24}));
  EXPECT_EQ(Model("mistral", R"("sliding_window": null,)").layer_windows, Windows());
  EXPECT_EQ(Model("mistral").layer_windows, (Windows{4096, 4096}));  // the class's default
  EXPECT_EQ(Model("llama", R"("sliding_window": 24,)").layer_windows, Windows());
  EXPECT_EQ(Model("qwen2", R"("sliding_window": 24,)").layer_windows, Windows());
  EXPECT_EQ(Model("qwen2", R"("use_sliding_window": true, "sliding_window": 24,
                              "max_window_layers": 2,)")
                .layer_windows,
            Windows());
  EXPECT_EQ(Model("qwen2", R"("use_sliding_window": true, "sliding_window": 24,
                              "max_window_layers": 1,)")
                .layer_windows,
            (Windows{0, 24}));
  EXPECT_EQ(Model("qwen3", R"("use_sliding_window": true, "sliding_window": 24,
                              "layer_types": ["sliding_attention", "full_attention"],)")
                .layer_windows,
            (Windows{24, 0}));
  ExpectFileRefused(R"("layer_types": ["chunked_attention", "full_attention"],)",
                    StatusCode::kUnimplemented, {"layer_types", "chunked_attention"}, "mistral");
  ExpectFileRefused(R"("layer_types": ["full_attention"],)", StatusCode::kInvalidArgument,
                    {"layer_types has 1 entries for 2 layers"}, "mistral");
}

TEST(ReadHfConfig, ReadsAGemma3) {
  const ModelConfig config = Model("gemma3_text", R"("head_dim": 16, "sliding_window": 24,
      "sliding_window_pattern": 2, "query_pre_attn_scalar": 64, "rope_theta": 5e5,
      "rope_local_base_freq": 5e3, "rope_scaling": {"rope_type": "linear", "factor": 8.0},)");
  EXPECT_EQ(config.family, "gemma3");
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_TRUE(config.qk_norm && config.post_norms);
  EXPECT_EQ(config.norm_offset, 1.0f);
  EXPECT_EQ(config.embedding_scale, std::sqrt(32.0f));
  EXPECT_EQ(config.attention_scale, 0.125f);
  EXPECT_EQ(config.layer_windows, (std::vector<int32_t>{24, 0}));
  EXPECT_EQ(config.rope.theta, 5e5f);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(config.rope.factor, 8.0f);
  ASSERT_TRUE(config.local_rope.has_value());
  EXPECT_EQ(config.local_rope->theta, 5e3f);
  EXPECT_EQ(config.local_rope->scaling, RopeScaling::kNone);

  const ModelConfig silent = Model("gemma3_text");
  EXPECT_EQ(silent.head_dim, 256);
  EXPECT_EQ(silent.attention_scale, 1.0f / 16);
  EXPECT_EQ(silent.rope.theta, 1e6f);
  EXPECT_EQ(silent.local_rope->theta, 1e4f);
  EXPECT_EQ(silent.layer_windows, (std::vector<int32_t>{4096, 4096}));
}

TEST(ReadHfConfig, ReadsAGemma2) {
  const ModelConfig silent = Model("gemma2");
  EXPECT_TRUE(silent.post_norms);
  EXPECT_FALSE(silent.qk_norm || silent.local_rope.has_value());
  EXPECT_EQ(silent.attention_softcap, 50.0f);
  EXPECT_EQ(silent.logit_softcap, 30.0f);
  EXPECT_EQ(silent.layer_windows, (std::vector<int32_t>{4096, 0}));
  EXPECT_EQ(silent.rope.theta, 10000.0f);
  const ModelConfig config = Model("gemma2", R"("attn_logit_softcapping": null,
                                                "final_logit_softcapping": 20.0,)");
  EXPECT_EQ(config.attention_softcap, 0.0f);
  EXPECT_EQ(config.logit_softcap, 20.0f);
  EXPECT_EQ(Model("gemma3_text").attention_softcap, 0.0f);
}

TEST(ReadHfConfig, ReadsRopeParametersPerKindOfLayer) {
  const ModelConfig config = Model("gemma3_text", R"("rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 7e5},
      "sliding_attention": {"rope_type": "default", "rope_theta": 7e3}},)");
  EXPECT_EQ(config.rope.theta, 7e5f);
  EXPECT_EQ(config.rope.factor, 4.0f);
  EXPECT_EQ(config.local_rope->theta, 7e3f);
  EXPECT_EQ(config.local_rope->scaling, RopeScaling::kNone);
}

TEST(ReadHfConfig, ReadsRopeScalingOldAndNew) {
  const ModelConfig linear =
      Model("llama", R"("rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0},)");
  EXPECT_EQ(linear.rope.theta, 5e5f);
  EXPECT_EQ(linear.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(linear.rope.factor, 2.0f);

  const ModelConfig llama3 = Model(
      "llama", R"("rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                  "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 32},)");
  EXPECT_EQ(llama3.rope.theta, 500000.0f);
  EXPECT_EQ(llama3.rope.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(llama3.rope.factor, 8.0f);
  EXPECT_EQ(llama3.rope.low_freq_factor, 1.0f);
  EXPECT_EQ(llama3.rope.high_freq_factor, 4.0f);
  EXPECT_EQ(llama3.rope.original_max_positions, 32);

  EXPECT_EQ(Model("llama", R"("rope_scaling": null,)").rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(Model("llama", R"("rope_parameters": {"rope_type": "default", "rope_theta": 7.0},)")
                .rope.theta,
            7.0f);
}

TEST(ReadHfConfig, ComputesTheYarnAttentionFactor) {
  const auto yarn = [](absl::string_view more) {
    return Model("qwen3", absl::StrCat(R"("rope_scaling": {"rope_type": "yarn", )", more,
                                       R"("original_max_position_embeddings": 32},)"))
        .rope;
  };
  const RopeConfig rope = yarn(R"("factor": 4.0, )");
  EXPECT_EQ(rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(rope.original_max_positions, 32);
  EXPECT_FLOAT_EQ(rope.attention_factor, 0.1f * std::log(4.0f) + 1.0f);
  EXPECT_EQ(rope.beta_fast, 32.0f);
  EXPECT_EQ(rope.beta_slow, 1.0f);
  EXPECT_EQ(yarn("").factor, 4.0f);  // absent: max_position_embeddings / original
  EXPECT_EQ(yarn(R"("factor": 4.0, "attention_factor": 1.5, )").attention_factor, 1.5f);
  EXPECT_FLOAT_EQ(yarn(R"("factor": 4.0, "mscale": 0.7, "mscale_all_dim": 2.0, )").attention_factor,
                  (0.07f * std::log(4.0f) + 1.0f) / (0.2f * std::log(4.0f) + 1.0f));
}

TEST(ReadHfConfig, RefusesRopeItDoesNotKnow) {
  ExpectFileRefused(R"("rope_scaling": {"type": "dynamic", "factor": 2.0},)",
                    StatusCode::kUnimplemented,
                    {"config.json: rope_scaling.rope_type is \"dynamic\"", "llama3"});
  ExpectFileRefused(R"("rope_scaling": {"type": "linear"},)", StatusCode::kInvalidArgument,
                    {"rope_scaling.factor is missing"});
  ExpectFileRefused(R"("rope_scaling": {"type": "linear", "factor": -1},)",
                    StatusCode::kInvalidArgument, {"rope factor is -1"});
  ExpectFileRefused(R"("rope_parameters": {"full_attention": {"rope_type": "default"}},)",
                    StatusCode::kUnimplemented, {"full_attention"});
  ExpectFileRefused(R"("partial_rotary_factor": 0.5,)", StatusCode::kUnimplemented,
                    {"partial_rotary_factor is 0.5"});
  ExpectFileRefused(R"("rope_scaling": {"rope_type": "yarn", "factor": 2, "truncate": false},)",
                    StatusCode::kUnimplemented, {"truncate"});
  ExpectFileRefused(
      R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
                    "high_freq_factor": 4.0},)",
      StatusCode::kInvalidArgument, {"low_freq_factor is 4", "below"});
}

TEST(ReadHfConfig, SaysWhetherTheFileTiesTheHead) {
  EXPECT_FALSE(Read("llama", "")->says_tied);
  const auto tied = Read("llama", R"("tie_word_embeddings": true,)");
  EXPECT_TRUE(tied->says_tied && tied->model.tied_embeddings);
  const auto untied = Read("llama", R"("tie_word_embeddings": false,)");
  EXPECT_TRUE(untied->says_tied && !untied->model.tied_embeddings);
}

TEST(ReadHfConfig, RefusesOtherModelsByName) {
  ExpectFileRefused("", StatusCode::kUnimplemented, {"config.json", "gemma3n", "qwen3"}, "gemma3n");
  ExpectFileRefused(R"("quantization_config": {"quant_method": "gptq"},)",
                    StatusCode::kUnimplemented, {"quantization_config"});
  EXPECT_EQ(Model("llama", R"("tie_word_embeddings": null,)").activation, Activation::kSilu);
}

TEST(ReadHfConfig, RefusesBadValuesByName) {
  const auto read = [](absl::string_view from, absl::string_view to) {
    std::string text = TinyHfConfig();
    text.replace(text.find(std::string(from)), from.size(), std::string(to));
    return ReadHfConfig(text, "config.json").status();
  };
  ExpectRefused(read("\"vocab_size\": 12", "\"vocab_size\": \"12\""), StatusCode::kInvalidArgument,
                {"config.json: vocab_size is \"12\"", "integer"});
  ExpectRefused(read("\"vocab_size\": 12", "\"vocab_size\": -1"), StatusCode::kInvalidArgument,
                {"vocab_size is -1"});
  ExpectRefused(read("\"vocab_size\": 12", "\"vocab_size\": 99999999999"),
                StatusCode::kInvalidArgument, {"vocab_size is 99999999999", "2147483647"});
  ExpectRefused(read("\"vocab_size\": 12,", ""), StatusCode::kInvalidArgument,
                {"vocab_size is missing"});
  ExpectRefused(read("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 5000"),
                StatusCode::kInvalidArgument, {"num_layers is 5000", "1024"});
  ExpectRefused(read("\"silu\"", "\"relu\""), StatusCode::kUnimplemented, {"hidden_act", "relu"});
  ExpectRefused(read("1e-5", "2"), StatusCode::kInvalidArgument, {"norm_eps is 2"});
  ExpectRefused(read("\"vocab_size\": 12", "\"vocab_size\": 12, \"vocab_size\": 12"),
                StatusCode::kInvalidArgument, {"duplicate key \"vocab_size\""});
}

}  // namespace
}  // namespace octavo
