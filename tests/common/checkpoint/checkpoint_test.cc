#include "common/checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "common/checkpoint/mapped_file.h"
#include "tests/common/checkpoint/file_builders.h"
#include "tests/common/checkpoint/status_testing.h"

namespace octavo {
namespace {

using absl::StatusCode;

absl::Status OpenStatus(const std::string& path) { return Checkpoint::Open(path).status(); }

void WriteTinyFolder(const TempFolder& folder, absl::string_view extra = "",
                     const SafetensorsBuilder& weights = TinySafetensors()) {
  folder.Write("config.json", TinyHfConfig("llama", extra));
  folder.Write("tokenizer.json", kTinyTokenizerJson);
  folder.Write("generation_config.json", R"({"eos_token_id": [0, 7]})");
  folder.Write("model.safetensors", weights.Build());
}

TEST(Checkpoint, OpensAGgufFile) {
  const TempFolder folder;
  auto model = Checkpoint::Open(folder.Write("m.gguf", TinyGguf().Build()));
  ASSERT_TRUE(model.ok()) << model.status();
  const auto query = (*model)->Tensor(TensorRole::kQuery, 1);
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->name, "blk.1.attn_q.weight");
  EXPECT_EQ(query->rows(), 32);
  EXPECT_EQ(query->cols(), 32);
  EXPECT_EQ(std::memcmp(query->data, CountingFloats(1024).data(), 4096), 0);
  EXPECT_EQ((*model)->Tensor(TensorRole::kOutput)->name, "token_embd.weight");
  ExpectRefused((*model)->Tensor(TensorRole::kQueryBias, 0).status(), StatusCode::kNotFound,
                {"m.gguf", "has no tensor \"blk.0.attn_q.bias\""});
  ExpectRefused((*model)->Tensor(TensorRole::kQuery, 2).status(), StatusCode::kInvalidArgument,
                {"layer 2", "2 layers"});
  EXPECT_EQ((*model)->tokenizer().tokens.size(), 12u);
}

TEST(Checkpoint, OpensAFolderWithOneWeightFile) {
  const TempFolder folder;
  WriteTinyFolder(folder);
  auto model = Checkpoint::Open(folder.path() + "/");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->config().name, folder.path().substr(folder.path().find_last_of('/') + 1));
  EXPECT_FALSE((*model)->config().tied_embeddings);
  EXPECT_EQ((*model)->Tensor(TensorRole::kOutput)->name, "lm_head.weight");
  EXPECT_EQ((*model)->Tensor(TensorRole::kDown, 1)->shape, (std::vector<int64_t>{32, 48}));
  EXPECT_EQ((*model)->tokenizer().eos_ids, (std::vector<TokenId>{0, 7}));
  EXPECT_EQ((*model)->tensor_bytes(),
            4 * (2 * 12 * 32 + 32 + 2 * (2 * 32 + 2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32)));
}

TEST(Checkpoint, OpensShards) {
  const TempFolder whole, folder;
  WriteTinyFolder(whole);
  folder.Write("config.json", TinyHfConfig());
  SafetensorsBuilder first, second;
  AddTinyLayer(first, 0);
  AddTinyLayer(second, 1).F32("model.embed_tokens.weight", {12, 32});
  second.F32("model.norm.weight", {32}).F32("lm_head.weight", {12, 32});
  folder.Write("1.safetensors", first.Build());
  folder.Write("2.safetensors", second.Build());
  const std::string map = R"({"weight_map": {"lm_head.weight": "2.safetensors",
                            "model.layers.0.mlp.up_proj.weight": "1.safetensors"}})";
  folder.Write("model.safetensors.index.json", map);
  auto sharded = Checkpoint::Open(folder.path());
  ASSERT_TRUE(sharded.ok()) << sharded.status();
  auto single = Checkpoint::Open(whole.path());
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ((*sharded)->digest(), (*single)->digest());
  EXPECT_EQ((*sharded)->tensor_bytes(), (*single)->tensor_bytes());

  folder.Write("model.safetensors.index.json",
               R"({"weight_map": {"lm_head.weight": "1.safetensors", "x": "2.safetensors"}})");
  ExpectRefused(OpenStatus(folder.path()), StatusCode::kInvalidArgument,
                {"index.json", "\"lm_head.weight\" should be in 1.safetensors"});
  folder.Write("model.safetensors.index.json", R"({"weight_map": {"a": "3.safetensors"}})");
  ExpectRefused(OpenStatus(folder.path()), StatusCode::kNotFound, {"3.safetensors"});
  folder.Write("model.safetensors.index.json", map);
  first.F32("lm_head.weight", {12, 32});
  folder.Write("1.safetensors", first.Build());
  ExpectRefused(OpenStatus(folder.path()), StatusCode::kInvalidArgument,
                {"2.safetensors: tensor \"lm_head.weight\" is in 1.safetensors too"});
}

TEST(Checkpoint, TiesTheHeadWhenTheConfigurationSaysSoOrSaysNothing) {
  SafetensorsBuilder headless;
  headless.F32("model.embed_tokens.weight", {12, 32}).F32("model.norm.weight", {32});
  AddTinyLayer(AddTinyLayer(headless, 0), 1);
  const TempFolder silent, tied, untied, tied_with_head;
  WriteTinyFolder(silent, "", headless);
  WriteTinyFolder(tied, R"("tie_word_embeddings": true,)", headless);
  WriteTinyFolder(untied, R"("tie_word_embeddings": false,)", headless);
  WriteTinyFolder(tied_with_head, R"("tie_word_embeddings": true,)");
  for (const TempFolder* folder : {&silent, &tied, &tied_with_head}) {
    auto model = Checkpoint::Open(folder->path());
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE((*model)->config().tied_embeddings);
    EXPECT_EQ((*model)->Tensor(TensorRole::kOutput)->name, "model.embed_tokens.weight");
  }
  ExpectRefused(OpenStatus(untied.path()), StatusCode::kInvalidArgument,
                {"tensor \"lm_head.weight\" is missing"});
}

TEST(Checkpoint, RefusesAFolderWhoseTensorsContradictItsConfiguration) {
  SafetensorsBuilder wrong = TinySafetensors();
  wrong.F32("model.layers.2.input_layernorm.weight", {32});
  const TempFolder more, heads;
  WriteTinyFolder(more, "", wrong);
  ExpectRefused(OpenStatus(more.path()), StatusCode::kUnimplemented,
                {"model.layers.2.input_layernorm.weight", "2-layer llama"});
  WriteTinyFolder(heads, R"("head_dim": 16,)");
  ExpectRefused(OpenStatus(heads.path()), StatusCode::kInvalidArgument,
                {heads.path(), "\"model.layers.0.self_attn.q_proj.weight\" has shape [32, 32]",
                 "wants [64, 32]"});
}

TEST(Checkpoint, NamesWhatCannotBeOpened) {
  const TempFolder folder;
  ExpectRefused(OpenStatus(folder.path() + "/none.gguf"), StatusCode::kNotFound, {"none.gguf"});
  ExpectRefused(OpenStatus(folder.path()), StatusCode::kNotFound, {"config.json"});
  ExpectRefused(OpenStatus(folder.Write("empty", "")), StatusCode::kInvalidArgument,
                {"empty is neither a GGUF file", "Hugging Face folder"});
  ExpectRefused(OpenStatus("/dev/zero"), StatusCode::kInvalidArgument, {"not a regular file"});
  const std::string fifo = folder.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ExpectRefused(OpenStatus(fifo), StatusCode::kInvalidArgument, {"not a regular file"});
  folder.Write("config.json", TinyHfConfig());
  ExpectRefused(OpenStatus(folder.path()), StatusCode::kNotFound, {"model.safetensors"});
  if (::geteuid() != 0) {  // root reads everything
    const std::string secret = folder.Write("secret.gguf", "GGUF");
    ASSERT_EQ(::chmod(secret.c_str(), 0), 0);
    ExpectRefused(OpenStatus(secret), StatusCode::kPermissionDenied, {"secret.gguf"});
  }
}

TEST(Checkpoint, DigestTellsModelsApart) {
  const TempFolder folder;
  const auto digest = [&folder](const GgufBuilder& builder) {
    auto model = Checkpoint::Open(folder.Write("m.gguf", builder.Build()));
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? (*model)->digest() : "";
  };
  const std::string base = digest(TinyGguf());
  EXPECT_EQ(base.size(), 64u);
  EXPECT_EQ(digest(TinyGguf()), base);
  GgufBuilder renamed = TinyGguf();
  renamed.Remove("general.name").Text("general.name", "other");
  EXPECT_EQ(digest(renamed), base);  // a name changes no output
  GgufBuilder theta = TinyGguf();
  theta.Remove("llama.rope.freq_base").F32("llama.rope.freq_base", 10001.0f);
  EXPECT_NE(digest(theta), base);
  GgufBuilder norm = TinyGguf();
  norm.RemoveTensor("output_norm.weight")
      .Tensor("output_norm.weight", {32}, 0, std::string(128, '\0'));
  EXPECT_NE(digest(norm), base);
}

TEST(MappedFile, MapsContentAndEmptyFiles) {
  const TempFolder folder;
  const auto file = MappedFile::Open(folder.Write("f", "content"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->text(), "content");
  const auto empty = MappedFile::Open(folder.Write("e", ""));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE((*empty)->bytes().empty());
}

}  // namespace
}  // namespace octavo
