#include "common/checkpoint/gguf.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/common/checkpoint/file_builders.h"
#include "tests/common/checkpoint/status_testing.h"

namespace octavo {
namespace {

using absl::StatusCode;

// The bytes must outlive the file, so they are the caller's.
absl::StatusOr<GgufFile> Parse(const std::string& bytes) {
  return GgufFile::Parse(AsBytes(bytes), "tiny.gguf");
}

void ExpectFileRefused(const GgufBuilder& builder, StatusCode code,
                       std::initializer_list<absl::string_view> phrases) {
  ExpectRefused(Parse(builder.Build()).status(), code, phrases);
}

TEST(GgufFile, ReadsVersionsTwoAndThree) {
  for (uint32_t version : {2u, 3u}) {
    GgufBuilder builder = TinyGguf();
    builder.version = version;
    const std::string bytes = builder.Build();
    const auto file = Parse(bytes);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->version(), version);
    EXPECT_EQ(file->tensors().size(), 20u);
    const TensorRef& down = file->tensors().at("blk.1.ffn_down.weight");
    EXPECT_EQ(down.shape, (std::vector<int64_t>{32, 48}));
    EXPECT_EQ(down.dtype, DType::kF32);
    EXPECT_EQ(down.bytes, 32 * 48 * 4);
    EXPECT_EQ(std::memcmp(down.data, CountingFloats(32 * 48).data(), 32 * 48 * 4), 0);
  }
}

TEST(GgufFile, ReadsEveryValueType) {
  GgufBuilder builder;
  builder.Raw("u8", 0, Bytes<uint8_t>(200)).Raw("i8", 1, Bytes<int8_t>(-100));
  builder.Raw("u16", 2, Bytes<uint16_t>(60000)).Raw("i16", 3, Bytes<int16_t>(-30000));
  builder.U32("u32", 4000000000u).Raw("i32", 5, Bytes<int32_t>(-2000000000));
  builder.F32("f32", 0.5f).Bool("yes", true).Bool("no", false).Text("text", "Ġ\n");
  builder.Raw("u64", 10, Bytes<uint64_t>(1ull << 63)).Raw("i64", 11, Bytes<int64_t>(INT64_MIN));
  builder.Raw("f64", 12, Bytes(0.1)).I32s("i32s", {7, -8}).Texts("texts", {"a", "", "bc"});
  const std::string bytes = builder.Build();
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto integer = [&](absl::string_view key) {
    return file->Integer(key, INT64_MIN, INT64_MAX)->value();
  };
  EXPECT_EQ(integer("u8"), 200);
  EXPECT_EQ(integer("i8"), -100);
  EXPECT_EQ(integer("u16"), 60000);
  EXPECT_EQ(integer("i16"), -30000);
  EXPECT_EQ(integer("u32"), 4000000000);
  EXPECT_EQ(integer("i32"), -2000000000);
  EXPECT_EQ(integer("i64"), INT64_MIN);
  EXPECT_EQ(file->Number("f32")->value(), 0.5);
  EXPECT_EQ(file->Number("f64")->value(), 0.1);
  EXPECT_EQ(file->Number("u8")->value(), 200.0);
  EXPECT_TRUE(file->Bool("yes")->value());
  EXPECT_FALSE(file->Bool("no")->value());
  EXPECT_EQ(file->String("text")->value(), "Ġ\n");
  const GgufArray* numbers = *file->Array("i32s", GgufType::kInt32);
  ASSERT_EQ(numbers->count, 2);
  EXPECT_EQ(numbers->Integer(1), -8);
  const GgufArray* texts = *file->Array("texts", GgufType::kString);
  EXPECT_EQ(texts->strings, (std::vector<absl::string_view>{"a", "", "bc"}));

  EXPECT_FALSE(file->Integer("absent", 0, 1)->has_value());
  EXPECT_EQ(*file->Array("absent", GgufType::kString), nullptr);
  ExpectRefused(file->Integer("u64", 0, INT64_MAX).status(), StatusCode::kInvalidArgument,
                {"u64", "9223372036854775808", "9223372036854775807"});
  ExpectRefused(file->Integer("u8", 0, 100).status(), StatusCode::kInvalidArgument,
                {"tiny.gguf", "\"u8\" is 200", "0 to 100"});
  ExpectRefused(file->Integer("text", 0, 1).status(), StatusCode::kInvalidArgument,
                {"\"text\" has type string", "an integer"});
  ExpectRefused(file->Bool("u8").status(), StatusCode::kInvalidArgument, {"uint8", "a bool"});
  ExpectRefused(file->String("u8").status(), StatusCode::kInvalidArgument, {"a string"});
  ExpectRefused(file->Number("text").status(), StatusCode::kInvalidArgument, {"a number"});
  ExpectRefused(file->Array("texts", GgufType::kInt32).status(), StatusCode::kInvalidArgument,
                {"array of string", "array of int32"});
}

TEST(GgufFile, RefusesEveryCutOfAFileWithoutReadingPastIt) {
  const std::string whole = TinyGguf().Build();
  for (size_t size = 0; size < whole.size(); size += size < 3000 ? 1 : 97) {
    const std::string cut = whole.substr(0, size);
    const auto file = Parse(cut);
    EXPECT_EQ(file.status().code(), StatusCode::kDataLoss) << size << ": " << file.status();
  }
}

TEST(GgufFile, RefusesWhatIsNoGguf) {
  ExpectRefused(Parse("PK\3\4 a zip file").status(), StatusCode::kInvalidArgument,
                {"tiny.gguf", "not a GGUF file"});
  GgufBuilder builder = TinyGguf();
  builder.version = 1;
  ExpectFileRefused(builder, StatusCode::kUnimplemented, {"version 1", "2 and 3"});
  builder.version = 0x03000000;
  ExpectFileRefused(builder, StatusCode::kUnimplemented, {"big-endian"});
}

TEST(GgufFile, RefusesAbsurdCounts) {
  const std::string start = "GGUF" + Bytes<uint32_t>(3);
  const std::string room(4096, '\0');
  ExpectRefused(Parse(start + Bytes<uint64_t>(1ull << 60) + Bytes<uint64_t>(0) + room).status(),
                StatusCode::kInvalidArgument,
                {"tensor count is 1152921504606846976", "limit is 131072"});
  ExpectRefused(Parse(start + Bytes<uint64_t>(0) + Bytes<uint64_t>(100000) + room).status(),
                StatusCode::kInvalidArgument, {"metadata count is 100000", "limit is 65536"});
  ExpectRefused(Parse(start + Bytes<uint64_t>(1000) + Bytes<uint64_t>(0) + room).status(),
                StatusCode::kDataLoss, {"tensor count is 1000", "4096 bytes left", "at most 170"});
}

TEST(GgufFile, RefusesStringsAndArraysLongerThanTheFile) {
  GgufBuilder text;
  text.Raw("k", 8, Bytes<uint64_t>(UINT64_MAX) + "abc");
  ExpectFileRefused(text, StatusCode::kInvalidArgument,
                    {"metadata \"k\"", "18446744073709551615 bytes long"});
  GgufBuilder array;
  array.Raw("k", 9, Bytes<uint32_t>(12) + Bytes<uint64_t>(1ull << 61));
  ExpectFileRefused(array, StatusCode::kDataLoss,
                    {"metadata \"k\"", "array of 2305843009213693952 elements"});
  GgufBuilder texts;
  texts.Raw("k", 9, Bytes<uint32_t>(8) + Bytes<uint64_t>(1ull << 61));
  ExpectFileRefused(texts, StatusCode::kDataLoss, {"array of 2305843009213693952 elements"});
  GgufBuilder nested;
  nested.Raw("k", 9, Bytes<uint32_t>(9) + Bytes<uint64_t>(1));
  ExpectFileRefused(nested, StatusCode::kUnimplemented, {"\"k\"", "array of arrays"});
}

TEST(GgufFile, RefusesUnknownValueTypesAndBools) {
  GgufBuilder type;
  type.Raw("k", 13, Bytes<uint64_t>(0));
  ExpectFileRefused(type, StatusCode::kInvalidArgument, {"\"k\"", "value type 13"});
  GgufBuilder flag;
  flag.Raw("k", 7, "\2");
  ExpectFileRefused(flag, StatusCode::kInvalidArgument, {"\"k\"", "bool of value 2"});
}

TEST(GgufFile, RefusesDuplicates) {
  GgufBuilder keys = TinyGguf();
  keys.U32("llama.block_count", 3);
  ExpectFileRefused(keys, StatusCode::kInvalidArgument,
                    {"tiny.gguf", "duplicate metadata key \"llama.block_count\""});
  GgufBuilder tensors = TinyGguf();
  tensors.F32Tensor("output_norm.weight", {32});
  ExpectFileRefused(tensors, StatusCode::kInvalidArgument,
                    {"duplicate tensor \"output_norm.weight\""});
}

TEST(GgufFile, RefusesUnknownTensorTypesByName) {
  GgufBuilder builder = TinyGguf();
  builder.Edit("blk.0.attn_q.weight").type = 10;
  ExpectFileRefused(builder, StatusCode::kUnimplemented,
                    {"tiny.gguf", "\"blk.0.attn_q.weight\" has type 10 (Q2_K)", "Q4_K Q5_K Q6_K"});
  builder.Edit("blk.0.attn_q.weight").type = 4711;
  ExpectFileRefused(builder, StatusCode::kUnimplemented, {"type 4711 (unknown)"});
}

TEST(GgufFile, RefusesTensorsPastTheEnd) {
  GgufBuilder builder = TinyGguf();
  builder.Edit("output_norm.weight").offset = 1 << 20;
  ExpectFileRefused(builder, StatusCode::kDataLoss,
                    {"\"output_norm.weight\" has 128 bytes at offset 1048576"});
  builder.Edit("output_norm.weight").offset = UINT64_MAX - 31;  // + 128 overflows
  ExpectFileRefused(builder, StatusCode::kDataLoss, {"offset 18446744073709551584"});
  builder.Edit("output_norm.weight").offset = 7;
  ExpectFileRefused(builder, StatusCode::kInvalidArgument, {"offset 7", "alignment 32"});
}

TEST(GgufFile, RefusesSizesThatOverflow) {
  GgufBuilder builder = TinyGguf();
  const auto with = [&builder](std::vector<uint64_t> sizes) {
    builder.Edit("output_norm.weight").sizes = std::move(sizes);
    return Parse(builder.Build()).status();
  };
  ExpectRefused(with({1ull << 32, 1ull << 32}), StatusCode::kInvalidArgument,
                {"output_norm.weight", "[4294967296, 4294967296]", "63 bits"});
  ExpectRefused(with({1ull << 61}), StatusCode::kInvalidArgument, {"size in bytes beyond 63 bits"});
  ExpectRefused(with({1ull << 63}), StatusCode::kInvalidArgument, {"size 9223372036854775808"});
  ExpectRefused(with({0}), StatusCode::kInvalidArgument, {"size 0"});
  ExpectRefused(with({}), StatusCode::kInvalidArgument, {"0 dimensions", "1 to 4"});
  ExpectRefused(with({1, 1, 1, 1, 1}), StatusCode::kInvalidArgument, {"5 dimensions"});
}

TEST(GgufFile, RefusesRowsThatAreNoWholeNumberOfBlocks) {
  GgufBuilder builder;
  builder.Tensor("w", {144, 2}, 12, std::string(4096, '\0'));  // Q4_K
  ExpectFileRefused(builder, StatusCode::kInvalidArgument,
                    {"\"w\" of type Q4_K", "rows of 144", "block of 256"});
  GgufBuilder five;
  five.Tensor("w", {48}, 7, std::string(4096, '\0'));  // Q5_1
  ExpectFileRefused(five, StatusCode::kInvalidArgument, {"Q5_1", "rows of 48", "block of 32"});
}

TEST(GgufFile, RefusesTensorsThatShareBytes) {
  GgufBuilder builder = TinyGguf();
  builder.Edit("blk.1.ffn_norm.weight").offset = builder.Edit("blk.0.ffn_norm.weight").offset;
  ExpectFileRefused(builder, StatusCode::kInvalidArgument,
                    {"blk.0.ffn_norm.weight", "blk.1.ffn_norm.weight", "share bytes"});
}

TEST(GgufFile, ReadsOtherAlignmentsAndRefusesBadOnes) {
  GgufBuilder builder;
  builder.alignment = 64;
  builder.U32("general.alignment", 64).F32Tensor("a", {3}).F32Tensor("b", {5});
  const std::string bytes = builder.Build();
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().at("b").data - file->tensors().at("a").data, 64);
  for (uint32_t alignment : {0u, 4u, 48u, 1u << 20}) {
    GgufBuilder bad;
    bad.U32("general.alignment", alignment).F32Tensor("a", {3});
    ExpectFileRefused(bad, StatusCode::kInvalidArgument,
                      {"general.alignment", absl::StrCat(alignment)});
  }
}

TEST(GgufFile, EscapesAndShortensNamesInMessages) {
  GgufBuilder builder;
  const std::string name = "\x1b[2J" + std::string(200, 'n');
  builder.F32Tensor(name, {3});
  builder.Edit(name).type = 99;
  const auto status = Parse(builder.Build()).status();
  EXPECT_EQ(status.message().find('\x1b'), absl::string_view::npos);
  EXPECT_LT(status.message().size(), 320u);
  GgufBuilder longer;
  longer.F32Tensor(std::string(256, 'n'), {3});
  ExpectFileRefused(longer, StatusCode::kInvalidArgument, {"256 bytes long", "limit is 255"});
}

}  // namespace
}  // namespace octavo
