#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "common/checkpoint/hf_model.h"
#include "tests/common/checkpoint/file_builders.h"
#include "tests/common/checkpoint/status_testing.h"

namespace octavo {
namespace {

using absl::StatusCode;

constexpr char kGpt2[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// tokenizer.json with one part replaced.
std::string With(absl::string_view from, absl::string_view to) {
  std::string text = kTinyTokenizerJson;
  const size_t at = text.find(std::string(from));
  OCTAVO_CHECK(at != std::string::npos, from);
  return text.replace(at, from.size(), std::string(to));
}

std::string WithPreTokenizer(absl::string_view json) {
  const std::string text = kTinyTokenizerJson;
  const size_t start = text.find("{\"type\": \"Sequence\"");
  const size_t end = text.find("]},", start) + 2;
  return absl::StrCat(text.substr(0, start), json, text.substr(end));
}

struct Extra {
  std::optional<std::string> tokenizer_config, generation_config, chat_template;
};

absl::StatusOr<TokenizerSpec> Read(const std::string& tokenizer, const Extra& extra = {}) {
  const std::string config = TinyHfConfig();
  HfTexts texts;
  texts.config = config;
  texts.tokenizer = tokenizer;
  texts.tokenizer_config = extra.tokenizer_config;
  texts.generation_config = extra.generation_config;
  texts.chat_template = extra.chat_template;
  return ReadHfTokenizer(texts, 12, "dir");
}

std::vector<std::string> Passes(absl::string_view pre_tokenizer) {
  const auto spec = Read(WithPreTokenizer(pre_tokenizer));
  EXPECT_TRUE(spec.ok()) << spec.status();
  std::vector<std::string> patterns;
  if (spec.ok()) {
    for (const PreTokenizerPass& pass : spec->passes) patterns.push_back(pass.pattern);
  }
  return patterns;
}

TEST(ReadHfTokenizer, ReadsVocabularyMergesAndAddedTokens) {
  const auto spec = Read(kTinyTokenizerJson);
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->tokens.size(), 11u);
  EXPECT_EQ(spec->tokens[6], "abc");
  EXPECT_EQ(spec->tokens[8], "");  // no token has this id
  EXPECT_EQ(spec->tokens[10], "<think>");
  ASSERT_EQ(spec->merges.size(), 2u);
  EXPECT_EQ(spec->merges[1], (std::pair<std::string, std::string>("ab", "c")));
  ASSERT_EQ(spec->added.size(), 3u);
  EXPECT_EQ(spec->added[2].id, 10);
  EXPECT_FALSE(spec->added[2].special);
  EXPECT_TRUE(spec->added[0].special);
  EXPECT_EQ(spec->pre_name, "");
  EXPECT_FALSE(spec->normalize_nfc || spec->ignore_merges || spec->add_bos);
  EXPECT_EQ(spec->bos_id, 1);                           // config.json
  EXPECT_EQ(spec->eos_ids, (std::vector<TokenId>{0}));  // config.json
}

TEST(ReadHfTokenizer, ReadsMergesAsPairsToo) {
  const auto spec = Read(With(R"(["a b", "ab c"])", R"([["a", "b"], ["ab", "c"]])"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->merges, Read(kTinyTokenizerJson)->merges);
}

// As Gemma's and Llama 2's files: `normalizer` and `pre_tokenizer` are what they differ in.
std::string PiecesJson(absl::string_view normalizer, absl::string_view pre_tokenizer) {
  return absl::StrCat(R"({"added_tokens": [{"id": 0, "content": "<s>", "special": true}],
    "normalizer": )",
                      normalizer, R"(, "pre_tokenizer": )", pre_tokenizer, R"(,
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
      "vocab": {"<s>": 0, "<unk>": 1, "<0x0A>": 2, "<0xFF>": 3, "a": 4, "b": 5, "▁": 6, "ab": 7,
                "▁ab": 8, "▁a": 9},
      "merges": ["a b", "▁ ab", "▁a b", "▁ a"]}})");
}

constexpr char kSpaces[] = R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})";

TEST(ReadHfTokenizer, ReadsPiecesWithTheirBestRankAsScore) {
  const auto spec = Read(PiecesJson(
      kSpaces, R"({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                   "invert": false})"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->model, TokenizerModel::kPieces);
  EXPECT_EQ(spec->scores[7], 0);
  EXPECT_EQ(spec->scores[8], -1);  // its first merge, not its second
  EXPECT_EQ(spec->scores[9], -3);
  EXPECT_TRUE(std::isinf(spec->scores[4]));
  EXPECT_TRUE(spec->merges.empty());
  EXPECT_EQ(spec->byte_tokens, (std::vector<std::pair<uint8_t, TokenId>>{{0x0A, 2}, {0xFF, 3}}));
  EXPECT_EQ(spec->unknown_id, 1);
  EXPECT_EQ(spec->space_prefix, SpacePrefix::kNone);
}

TEST(ReadHfTokenizer, ReadsWherePiecesWantASpace) {
  const auto prefix = [](absl::string_view normalizer, absl::string_view pre_tokenizer) {
    const auto spec = Read(PiecesJson(normalizer, pre_tokenizer));
    EXPECT_TRUE(spec.ok()) << spec.status();
    return spec.ok() ? spec->space_prefix : SpacePrefix::kNone;
  };
  EXPECT_EQ(prefix(absl::StrCat(R"({"type": "Sequence", "normalizers": [
                                    {"type": "Prepend", "prepend": "▁"}, )",
                                kSpaces, "]}"),
                   "null"),
            SpacePrefix::kEach);
  const auto metaspace = [](absl::string_view scheme) {
    return absl::StrCat(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": ")", scheme,
                        R"(", "split": false})");
  };
  EXPECT_EQ(prefix("null", metaspace("first")), SpacePrefix::kFirst);
  EXPECT_EQ(prefix("null", metaspace("never")), SpacePrefix::kNone);
  const auto refuse = [](const std::string& json, absl::string_view phrase) {
    ExpectRefused(Read(json).status(), StatusCode::kUnimplemented, {"tokenizer.json", phrase});
  };
  refuse(PiecesJson("null", metaspace("always")), "always");
  refuse(PiecesJson(R"({"type": "NFKC"})", "null"), "NFKC");
  refuse(PiecesJson(R"({"type": "Replace", "pattern": {"String": "x"}, "content": "▁"})", "null"),
         "U+2581");
  refuse(PiecesJson(kSpaces, R"({"type": "Whitespace"})"), "Whitespace");
}

TEST(ReadHfTokenizer, TurnsPreTokenizersIntoPasses) {
  EXPECT_EQ(Passes(R"({"type": "Sequence", "pretokenizers": [
                       {"type": "Digits", "individual_digits": true},
                       {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]})"),
            (std::vector<std::string>{R"(\p{N})", kGpt2}));  // SmolLM
  EXPECT_EQ(Passes(R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true})"),
            (std::vector<std::string>{kGpt2}));  // GPT-2: use_regex defaults to true
  EXPECT_EQ(Passes(R"({"type": "Sequence", "pretokenizers": [
                       {"type": "Split", "pattern": {"Regex": "(?i:'s|'t)|\\p{L}+"},
                        "behavior": "Isolated", "invert": false},
                       {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})"),
            (std::vector<std::string>{R"((?i:'s|'t)|\p{L}+)"}));  // Llama 3, Qwen
  EXPECT_EQ(Passes(R"({"type": "Sequence", "pretokenizers": [
                       {"type": "Split", "pattern": {"String": "a.b é"}, "behavior": "Isolated"},
                       {"type": "Digits", "individual_digits": false},
                       {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})"),
            (std::vector<std::string>{R"(a\.b\ é)", R"(\p{N}+)"}));
}

TEST(ReadHfTokenizer, RefusesPreTokenizersItCannotExpress) {
  const auto refuse = [](absl::string_view json, absl::string_view phrase) {
    ExpectRefused(Read(WithPreTokenizer(json)).status(), StatusCode::kUnimplemented,
                  {"dir/tokenizer.json", phrase});
  };
  refuse(R"({"type": "Metaspace", "replacement": "▁"})", "Metaspace");
  refuse(R"({"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}]})", "Whitespace");
  refuse(R"({"type": "Digits", "individual_digits": true})", "without ByteLevel");
  refuse("null", "without ByteLevel");
  refuse(R"({"type": "ByteLevel", "add_prefix_space": true})", "add_prefix_space");
  refuse(R"({"type": "Sequence", "pretokenizers": [
             {"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Removed"}]})",
         "Removed");
  refuse(R"({"type": "Sequence", "pretokenizers": [
             {"type": "ByteLevel", "add_prefix_space": false}, {"type": "Digits"}]})",
         "nothing after ByteLevel");
}

TEST(ReadHfTokenizer, ReadsNormalizers) {
  EXPECT_TRUE(
      Read(With("\"normalizer\": null", R"("normalizer": {"type": "NFC"})"))->normalize_nfc);
  EXPECT_TRUE(Read(With("\"normalizer\": null", R"("normalizer": {"type": "Sequence",
                        "normalizers": [{"type": "NFC"}]})"))
                  ->normalize_nfc);
  ExpectRefused(Read(With("\"normalizer\": null", R"("normalizer": {"type": "NFKC"})")).status(),
                StatusCode::kUnimplemented, {"normalizer", "NFKC"});
}

TEST(ReadHfTokenizer, ReadsBosFromThePostProcessor) {
  const auto with = [](absl::string_view single) {
    return With("\"post_processor\": null",
                absl::StrCat(R"("post_processor": {"type": "Sequence", "processors": [
                  {"type": "ByteLevel", "trim_offsets": false},
                  {"type": "TemplateProcessing", "single": )",
                             single, R"(, "pair": [],
                   "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [0],
                                                  "tokens": ["<|end|>"]}}}]})"));
  };
  const auto spec = Read(with(R"([{"SpecialToken": {"id": "<|end|>", "type_id": 0}},
                                  {"Sequence": {"id": "A", "type_id": 0}}])"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->add_bos);
  EXPECT_EQ(spec->bos_id, 0);
  EXPECT_FALSE(Read(with(R"([{"Sequence": {"id": "A", "type_id": 0}}])"))->add_bos);
  ExpectRefused(Read(with(R"([{"Sequence": {"id": "A", "type_id": 0}},
                              {"SpecialToken": {"id": "<|end|>", "type_id": 0}}])"))
                    .status(),
                StatusCode::kUnimplemented, {"SpecialToken", "before the text"});
  ExpectRefused(Read(with(R"([{"SpecialToken": {"id": "<|other|>", "type_id": 0}}])")).status(),
                StatusCode::kInvalidArgument, {"special_tokens.<|other|> is missing"});
}

TEST(ReadHfTokenizer, RefusesOtherModelsByName) {
  const auto refuse = [](const std::string& text, absl::string_view phrase) {
    ExpectRefused(Read(text).status(), StatusCode::kUnimplemented, {"dir/tokenizer.json", phrase});
  };
  refuse(With("\"BPE\"", "\"Unigram\""), "Unigram");
  refuse(With("\"dropout\": null", "\"dropout\": 0.1"), "dropout");
  refuse(With("\"end_of_word_suffix\": null", "\"end_of_word_suffix\": \"</w>\""), "</w>");
  refuse(With("\"unk_token\": null", "\"unk_token\": \"d\""), "lacks byte 0");
  refuse(With("\"lstrip\": false", "\"lstrip\": true"), "added_tokens[0].lstrip");
  refuse(With(R"("decoder": {"type": "ByteLevel")", R"("decoder": {"type": "Metaspace")"),
         "Metaspace");
}

TEST(ReadHfTokenizer, RefusesContradictionsByName) {
  const auto refuse = [](const std::string& text, std::initializer_list<absl::string_view> what) {
    ExpectRefused(Read(text).status(), StatusCode::kInvalidArgument, what);
  };
  refuse(With("\"d\": 7", "\"d\": 6"), {"model.vocab", "\"d\" has id 6", "that id is \"abc\""});
  refuse(With("\"d\": 7", "\"d\": 7, \"d\": 8"), {"duplicate key \"d\""});
  refuse(With("\"d\": 7", "\"d\": 12"), {"vocab.\"d\" is 12", "0 to 11"});
  refuse(With("\"d\": 7", "\"d\": -1"), {"is -1"});
  refuse(With("\"d\": 7", "\"d\": 1.5"), {"is 1.5"});
  refuse(With("\"id\": 10", "\"id\": 12"), {"added_tokens[2].id is 12"});
  refuse(With("\"id\": 10", "\"id\": 7"), {"\"<think>\" has id 7", "that id is \"d\""});
  refuse(With("\"<think>\"", "\"a\""), {"\"a\" has id 10", "it has id 2 too"});
  refuse(With("\"a b\"", "\"ab\""), {"merges[0] is \"ab\""});
  refuse(With("\"a b\"", "[\"a\"]"), {"merges[0] is an array of 1"});
  refuse(With("\"merges\"", "\"merges_\""), {"model.merges is missing"});
  refuse("[]", {"dir/tokenizer.json", "object is expected"});
}

TEST(ReadHfTokenizer, TakesEndTokensFromTheGenerationConfigFirst) {
  Extra extra;
  extra.generation_config = R"({"eos_token_id": [7, 0, 7], "bos_token_id": 2})";
  extra.tokenizer_config = R"({"bos_token": {"content": "<|start|>"}, "eos_token": "abc"})";
  auto spec = Read(kTinyTokenizerJson, extra);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->eos_ids, (std::vector<TokenId>{7, 0}));
  EXPECT_EQ(spec->bos_id, 1);  // tokenizer_config.json before the others
  extra.generation_config = R"({"eos_token_id": 6})";
  EXPECT_EQ(Read(kTinyTokenizerJson, extra)->eos_ids, (std::vector<TokenId>{6}));
  extra.generation_config = R"({"eos_token_id": 12})";
  ExpectRefused(Read(kTinyTokenizerJson, extra).status(), StatusCode::kInvalidArgument,
                {"dir/generation_config.json: eos_token_id is 12", "0 to 11"});
  extra.generation_config = "{}";
  extra.tokenizer_config = R"({"eos_token": "zzz"})";
  ExpectRefused(Read(kTinyTokenizerJson, extra).status(), StatusCode::kInvalidArgument,
                {"eos_token is \"zzz\"", "tokenizer.json does not have"});
}

TEST(ReadHfTokenizer, FindsTheChatTemplate) {
  Extra extra;
  EXPECT_EQ(Read(kTinyTokenizerJson, extra)->chat_template, "");
  extra.tokenizer_config = R"({"chat_template": "one"})";
  EXPECT_EQ(Read(kTinyTokenizerJson, extra)->chat_template, "one");
  extra.tokenizer_config = R"({"chat_template": [{"name": "tool_use", "template": "no"},
                                                 {"name": "default", "template": "two"}]})";
  EXPECT_EQ(Read(kTinyTokenizerJson, extra)->chat_template, "two");
  extra.chat_template = "{{ three }}";
  EXPECT_EQ(Read(kTinyTokenizerJson, extra)->chat_template, "{{ three }}");
  extra.tokenizer_config = R"({"chat_template": 5})";
  ExpectRefused(Read(kTinyTokenizerJson, extra).status(), StatusCode::kInvalidArgument,
                {"chat_template is 5"});
}

TEST(ReadHfTokenizer, HonoursAddBosTokenOfLlamaClassesOnly) {
  Extra extra;
  extra.tokenizer_config =
      R"({"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": true, "bos_token": "<|end|>"})";
  EXPECT_TRUE(Read(kTinyTokenizerJson, extra)->add_bos);
  extra.tokenizer_config =
      R"({"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": true, "bos_token": "<|end|>"})";
  EXPECT_FALSE(Read(kTinyTokenizerJson, extra)->add_bos);
}

TEST(ReadHfTokenizer, GivesNoTokensWhereThereIsNoTokenizerJson) {
  const std::string config = TinyHfConfig();
  HfTexts texts;
  texts.config = config;
  texts.tokenizer_config = R"({"eos_token": "<|end|>", "chat_template": "t"})";
  const auto spec = ReadHfTokenizer(texts, 12, "dir");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->tokens.empty());
  EXPECT_EQ(spec->eos_ids, (std::vector<TokenId>{0}));
  EXPECT_EQ(spec->chat_template, "t");
}

}  // namespace
}  // namespace octavo
