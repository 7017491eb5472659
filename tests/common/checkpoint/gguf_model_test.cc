#include "common/checkpoint/gguf_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "common/checkpoint/model_files.h"
#include "tests/common/checkpoint/file_builders.h"
#include "tests/common/checkpoint/status_testing.h"

namespace octavo {
namespace {

using absl::StatusCode;

struct Model {
  std::string bytes;  // what the parts point into
  absl::StatusOr<ModelParts> parts;
};

Model Read(const GgufBuilder& builder) {
  Model model{builder.Build(), absl::UnknownError("not read")};
  model.parts = ReadGgufModel(AsBytes(model.bytes), "tiny.gguf");
  return model;
}

void ExpectFileRefused(const GgufBuilder& builder, StatusCode code,
                       std::initializer_list<absl::string_view> phrases) {
  ExpectRefused(Read(builder).parts.status(), code, phrases);
}

TEST(ReadGgufModel, ReadsALlama) {
  const Model model = Read(TinyGguf());
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  const ModelConfig& config = model.parts->config;
  EXPECT_EQ(config.family, "llama");
  EXPECT_EQ(config.name, "tiny");
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.vocab_size, 12);  // no vocab_size key: the number of tokens
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_FALSE(config.qkv_bias || config.output_bias || config.mlp_bias || config.qk_norm);
  EXPECT_EQ(config.rope.style, RopeStyle::kInterleaved);
  EXPECT_EQ(config.rope.rotary_dim, 8);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kNone);
}

TEST(ReadGgufModel, ReadsQwen2WithBiasesAndQwen3WithNorms) {
  const Model qwen2 = Read(TinyGguf("qwen2"));
  ASSERT_TRUE(qwen2.parts.ok()) << qwen2.parts.status();
  EXPECT_TRUE(qwen2.parts->config.qkv_bias);
  EXPECT_FALSE(qwen2.parts->config.output_bias);
  EXPECT_EQ(qwen2.parts->config.rope.style, RopeStyle::kHalfSplit);
  const Model qwen3 = Read(TinyGguf("qwen3"));
  ASSERT_TRUE(qwen3.parts.ok()) << qwen3.parts.status();
  EXPECT_TRUE(qwen3.parts->config.qk_norm);
  EXPECT_EQ(qwen3.parts->config.rope.style, RopeStyle::kHalfSplit);
}

TEST(ReadGgufModel, ReadsGemma3AsLlamaCppDoes) {
  GgufBuilder builder = TinyGguf("gemma3");
  builder.U32("gemma3.attention.sliding_window", 24);
  Model model = Read(builder);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  const ModelConfig& config = model.parts->config;
  EXPECT_EQ(config.activation, Activation::kGeluTanh);
  EXPECT_TRUE(config.qk_norm && config.post_norms);
  EXPECT_EQ(config.norm_offset, 0.0f);  // llama.cpp's converter has added it
  EXPECT_EQ(config.embedding_scale, std::sqrt(32.0f));
  EXPECT_EQ(config.attention_scale, 0.0f);
  EXPECT_EQ(config.layer_windows, (std::vector<int32_t>{24, 24}));  // every sixth sees all
  EXPECT_EQ(config.rope.theta, 10000.0f);
  EXPECT_EQ(config.rope.style, RopeStyle::kHalfSplit);
  ASSERT_TRUE(config.local_rope.has_value());
  EXPECT_EQ(config.local_rope->theta, 10000.0f);

  builder.U32("gemma3.attention.sliding_window_pattern", 2)
      .F32("gemma3.rope.freq_base_swa", 500.0f)
      .Text("gemma3.rope.scaling.type", "linear")
      .F32("gemma3.rope.scaling.factor", 8.0f);
  model = Read(builder);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  EXPECT_EQ(model.parts->config.layer_windows, (std::vector<int32_t>{24, 0}));
  EXPECT_EQ(model.parts->config.rope.factor, 8.0f);
  EXPECT_EQ(model.parts->config.local_rope->theta, 500.0f);
  EXPECT_EQ(model.parts->config.local_rope->factor, 1.0f);
}

TEST(ReadGgufModel, ReadsGemma2AsLlamaCppDoes) {
  GgufBuilder builder = TinyGguf("gemma2");
  builder.F32("gemma2.final_logit_softcapping", 20.0f);
  const Model model = Read(builder);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  const ModelConfig& config = model.parts->config;
  EXPECT_TRUE(config.post_norms);
  EXPECT_FALSE(config.qk_norm || config.local_rope.has_value());
  EXPECT_EQ(config.attention_softcap, 50.0f);
  EXPECT_EQ(config.logit_softcap, 20.0f);
  EXPECT_EQ(config.layer_windows, (std::vector<int32_t>{4096, 0}));
}

TEST(ReadGgufModel, KeepsAnUntiedHeadApart) {
  GgufBuilder builder = TinyGguf();
  builder.F32Tensor("output.weight", {32, 12});
  const Model model = Read(builder);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  EXPECT_FALSE(model.parts->config.tied_embeddings);
}

TEST(ReadGgufModel, ReadsRopeScaling) {
  GgufBuilder linear = TinyGguf();
  linear.Text("llama.rope.scaling.type", "linear").F32("llama.rope.scaling.factor", 4.0f);
  Model model = Read(linear);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  EXPECT_EQ(model.parts->config.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(model.parts->config.rope.factor, 4.0f);

  GgufBuilder yarn = TinyGguf("qwen2");
  yarn.Text("qwen2.rope.scaling.type", "yarn")
      .F32("qwen2.rope.scaling.factor", 4.0f)
      .U32("qwen2.rope.scaling.original_context_length", 32);
  model = Read(yarn);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  const RopeConfig& rope = model.parts->config.rope;
  EXPECT_EQ(rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(rope.original_max_positions, 32);
  EXPECT_FLOAT_EQ(rope.attention_factor, 0.1f * std::log(4.0f) + 1.0f);
  EXPECT_EQ(rope.beta_fast, 32.0f);

  GgufBuilder unknown = TinyGguf();
  unknown.Text("llama.rope.scaling.type", "longrope");
  ExpectFileRefused(unknown, StatusCode::kUnimplemented, {"rope.scaling.type", "longrope"});
}

TEST(ReadGgufModel, ReadsFrequencyFactors) {
  GgufBuilder builder = TinyGguf();
  builder.Tensor("rope_freqs.weight", {4}, 0,
                 Bytes(1.0f) + Bytes(1.0f) + Bytes(2.5f) + Bytes(8.0f));
  const Model model = Read(builder);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  EXPECT_EQ(model.parts->config.rope.frequency_factors, (std::vector<float>{1, 1, 2.5, 8}));

  GgufBuilder wrong = TinyGguf();
  wrong.F32Tensor("rope_freqs.weight", {8});
  ExpectFileRefused(wrong, StatusCode::kInvalidArgument, {"rope_freqs.weight", "8 columns", "[4]"});
  GgufBuilder zero = TinyGguf();
  zero.Tensor("rope_freqs.weight", {4}, 0, std::string(16, '\0'));
  ExpectFileRefused(zero, StatusCode::kInvalidArgument, {"frequency factor is 0"});
}

TEST(ReadGgufModel, TakesOneValuePerLayerWhenAllAreEqual) {
  GgufBuilder equal = TinyGguf();
  equal.Remove("llama.attention.head_count_kv").I32s("llama.attention.head_count_kv", {2, 2});
  const Model model = Read(equal);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  EXPECT_EQ(model.parts->config.num_kv_heads, 2);
  GgufBuilder mixed = TinyGguf();
  mixed.Remove("llama.attention.head_count_kv").I32s("llama.attention.head_count_kv", {2, 1});
  ExpectFileRefused(mixed, StatusCode::kUnimplemented,
                    {"head_count_kv", "2 for layer 0 and 1 for layer 1"});
}

TEST(ReadGgufModel, RefusesShapesThatContradictTheConfiguration) {
  GgufBuilder builder = TinyGguf();
  builder.Remove("llama.embedding_length").U32("llama.embedding_length", 64);
  ExpectFileRefused(builder, StatusCode::kInvalidArgument,
                    {"tiny.gguf", "\"token_embd.weight\" has shape [12, 32]", "wants [12, 64]"});
  GgufBuilder heads = TinyGguf();
  heads.Remove("llama.attention.head_count_kv").U32("llama.attention.head_count_kv", 4);
  ExpectFileRefused(heads, StatusCode::kInvalidArgument,
                    {"\"blk.0.attn_k.weight\" has shape [16, 32]", "wants [32, 32]"});
}

TEST(ReadGgufModel, RefusesMissingAndUnknownTensors) {
  GgufBuilder missing = TinyGguf();
  missing.RemoveTensor("blk.1.ffn_up.weight");
  ExpectFileRefused(missing, StatusCode::kInvalidArgument,
                    {"tensor \"blk.1.ffn_up.weight\" is missing"});
  GgufBuilder unknown = TinyGguf();
  unknown.F32Tensor("blk.0.post_attention_norm.weight", {32});
  ExpectFileRefused(unknown, StatusCode::kUnimplemented,
                    {"\"blk.0.post_attention_norm.weight\" is not part of a 2-layer llama model"});
  GgufBuilder one_bias = TinyGguf();  // in layer 1 only: layer 0 says there are none
  one_bias.F32Tensor("blk.1.attn_q.bias", {32});
  ExpectFileRefused(one_bias, StatusCode::kUnimplemented, {"blk.1.attn_q.bias"});
  GgufBuilder quantised = TinyGguf();
  quantised.RemoveTensor("output_norm.weight")
      .Tensor("output_norm.weight", {32}, 8, std::string(34, '\0'));
  ExpectFileRefused(quantised, StatusCode::kInvalidArgument, {"output_norm.weight", "Q8_0", "F32"});
}

TEST(ReadGgufModel, RefusesOtherArchitecturesByName) {
  GgufBuilder builder = TinyGguf();
  builder.Remove("general.architecture").Text("general.architecture", "gemma3n");
  ExpectFileRefused(builder, StatusCode::kUnimplemented, {"gemma3n", "qwen3, gemma2 and gemma3"});
  builder.Remove("general.architecture");
  ExpectFileRefused(builder, StatusCode::kInvalidArgument, {"general.architecture\" is missing"});
  GgufBuilder experts = TinyGguf();
  experts.U32("llama.expert_count", 8);
  ExpectFileRefused(experts, StatusCode::kUnimplemented, {"llama.expert_count", "8"});
}

TEST(ReadGgufModel, RefusesPartsOfASplitFile) {
  GgufBuilder builder = TinyGguf();
  builder.Raw("split.count", 2, Bytes<uint16_t>(3));
  ExpectFileRefused(builder, StatusCode::kUnimplemented, {"split.count\" is 3", "one file"});
}

TEST(ReadGgufModel, RefusesMissingAndAbsurdSizes) {
  GgufBuilder missing = TinyGguf();
  missing.Remove("llama.block_count");
  ExpectFileRefused(missing, StatusCode::kInvalidArgument, {"\"llama.block_count\" is missing"});
  GgufBuilder zero = TinyGguf();
  zero.Remove("llama.block_count").U32("llama.block_count", 0);
  ExpectFileRefused(zero, StatusCode::kInvalidArgument, {"llama.block_count", "is 0"});
  GgufBuilder huge = TinyGguf();
  huge.Remove("llama.block_count").U32("llama.block_count", 2000000000);
  ExpectFileRefused(huge, StatusCode::kInvalidArgument, {"num_layers is 2000000000", "1024"});
  GgufBuilder zero_heads = TinyGguf();
  zero_heads.Remove("llama.attention.head_count").U32("llama.attention.head_count", 0);
  ExpectFileRefused(zero_heads, StatusCode::kInvalidArgument, {"head_count", "is 0"});
  GgufBuilder uneven = TinyGguf();
  uneven.Remove("llama.attention.head_count_kv").U32("llama.attention.head_count_kv", 3);
  ExpectFileRefused(uneven, StatusCode::kInvalidArgument, {"num_heads is 4", "num_kv_heads, 3"});
}

TEST(ReadGgufModel, ReadsTheTokenizer) {
  GgufBuilder builder = TinyGguf();
  builder.U32("tokenizer.ggml.eot_token_id", 1).Text("tokenizer.chat_template", "{{ x }}");
  const Model model = Read(builder);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  const TokenizerSpec& spec = model.parts->tokenizer;
  ASSERT_EQ(spec.tokens.size(), 12u);
  EXPECT_EQ(spec.tokens[7], "abc");
  EXPECT_EQ(spec.tokens[11], "");  // type 5: unused
  ASSERT_EQ(spec.added.size(), 3u);
  EXPECT_EQ(spec.added[1].text, "<|start|>");
  EXPECT_TRUE(spec.added[1].special);
  EXPECT_EQ(spec.added[2].text, "<think>");
  EXPECT_FALSE(spec.added[2].special);
  EXPECT_EQ(spec.merges[1], (std::pair<std::string, std::string>("ab", "c")));
  EXPECT_EQ(spec.bos_id, 1);
  EXPECT_EQ(spec.eos_ids, (std::vector<TokenId>{0, 1}));
  EXPECT_EQ(spec.chat_template, "{{ x }}");
  EXPECT_FALSE(spec.add_bos);
}

GgufBuilder WithPieces() {
  GgufBuilder builder = TinyGguf();
  builder.Remove("tokenizer.ggml.model").Text("tokenizer.ggml.model", "llama");
  builder.Remove("tokenizer.ggml.merges").Remove("tokenizer.ggml.tokens");
  builder.Remove("tokenizer.ggml.token_type");
  builder
      .Texts("tokenizer.ggml.tokens", {"<|end|>", "<|start|>", "<unk>", "<0x0A>", "<0xFf>", "a",
                                       "b", "ab", "\u2581", "\n\n", "e", "[P]"})
      .I32s("tokenizer.ggml.token_type", {3, 3, 2, 6, 6, 1, 1, 1, 1, 4, 1, 5});
  return builder;
}

TEST(ReadGgufModel, ReadsSentencePieceVocabularies) {
  GgufBuilder builder = WithPieces();
  builder.F32s("tokenizer.ggml.scores", {0, 0, 0, 0, 0, -1, -2, -3, -4, -5, -6, -7})
      .U32("tokenizer.ggml.unknown_token_id", 2);
  Model model = Read(builder);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  const TokenizerSpec& spec = model.parts->tokenizer;
  EXPECT_EQ(spec.model, TokenizerModel::kPieces);
  EXPECT_EQ(spec.byte_tokens, (std::vector<std::pair<uint8_t, TokenId>>{{0x0A, 3}, {0xFF, 4}}));
  ASSERT_EQ(spec.scores.size(), 12u);
  EXPECT_EQ(spec.scores[7], -3);
  EXPECT_TRUE(std::isinf(spec.scores[3]));
  EXPECT_EQ(spec.unknown_id, 2);
  ASSERT_EQ(spec.added.size(), 3u);
  EXPECT_FALSE(spec.added[2].special);
  EXPECT_EQ(spec.tokens[11], "[P]");
  EXPECT_TRUE(spec.add_bos);  // llama.cpp's default
  EXPECT_EQ(spec.space_prefix, SpacePrefix::kEach);
  builder.Bool("tokenizer.ggml.add_space_prefix", false);
  model = Read(builder);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  EXPECT_EQ(model.parts->tokenizer.space_prefix, SpacePrefix::kNone);
}

TEST(ReadGgufModel, RefusesBrokenSentencePieceVocabularies) {
  ExpectFileRefused(WithPieces(), StatusCode::kInvalidArgument,
                    {"tokenizer.ggml.scores\" has 0 entries for 12"});
  GgufBuilder nan = WithPieces();
  nan.F32s("tokenizer.ggml.scores", std::vector<float>(12, NAN));
  ExpectFileRefused(nan, StatusCode::kInvalidArgument, {"score of token 0"});
  GgufBuilder byte = WithPieces();
  byte.Remove("tokenizer.ggml.token_type")
      .I32s("tokenizer.ggml.token_type", {3, 3, 2, 6, 6, 6, 1, 1, 1, 4, 1, 5});
  ExpectFileRefused(byte, StatusCode::kInvalidArgument, {"byte token 5 is \"a\"", "<0x0A>"});
}

TEST(ReadGgufModel, AddsBosForLlama3UnlessTheFileSaysNo) {
  GgufBuilder builder = TinyGguf();
  builder.Remove("tokenizer.ggml.pre").Text("tokenizer.ggml.pre", "llama-bpe");
  Model model = Read(builder);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  EXPECT_TRUE(model.parts->tokenizer.add_bos);
  EXPECT_TRUE(model.parts->tokenizer.ignore_merges);
  builder.Bool("tokenizer.ggml.add_bos_token", false);
  model = Read(builder);
  ASSERT_TRUE(model.parts.ok()) << model.parts.status();
  EXPECT_FALSE(model.parts->tokenizer.add_bos);
  EXPECT_TRUE(model.parts->tokenizer.ignore_merges);
}

TEST(ReadGgufModel, RefusesOtherTokenizersByName) {
  GgufBuilder builder = TinyGguf();
  builder.Remove("tokenizer.ggml.model").Text("tokenizer.ggml.model", "t5");
  ExpectFileRefused(builder, StatusCode::kUnimplemented,
                    {"tokenizer.ggml.model\" is \"t5\"", "byte-level BPE"});
}

TEST(ReadGgufModel, RefusesTokenizersThatContradictThemselves) {
  GgufBuilder types = TinyGguf();
  types.Remove("tokenizer.ggml.token_type").I32s("tokenizer.ggml.token_type", {1, 1});
  ExpectFileRefused(types, StatusCode::kInvalidArgument,
                    {"token_type\" has 2 entries for 12 tokens"});
  types.Remove("tokenizer.ggml.token_type")
      .I32s("tokenizer.ggml.token_type", {1, 1, 1, 9, 1, 1, 1, 1, 1, 1, 1, 1});
  ExpectFileRefused(types, StatusCode::kInvalidArgument, {"is 9 for token 3", "1 to 6"});
  for (const char* merge : {"ab", " b", "a ", "a b c", ""}) {
    GgufBuilder merges = TinyGguf();
    merges.Remove("tokenizer.ggml.merges").Texts("tokenizer.ggml.merges", {"a b", merge});
    ExpectFileRefused(merges, StatusCode::kInvalidArgument,
                      {absl::StrCat("merge 1 is \"", merge, "\"")});
  }
  GgufBuilder eos = TinyGguf();
  eos.Remove("tokenizer.ggml.eos_token_id").U32("tokenizer.ggml.eos_token_id", 12);
  ExpectFileRefused(eos, StatusCode::kInvalidArgument, {"eos_token_id\" is 12", "0 to 11"});
  GgufBuilder many = TinyGguf();
  many.U32("llama.vocab_size", 11);
  ExpectFileRefused(many, StatusCode::kInvalidArgument, {"12 tokens", "the vocabulary has 11"});
}

}  // namespace
}  // namespace octavo
