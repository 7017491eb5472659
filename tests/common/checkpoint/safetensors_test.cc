#include "common/checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/common/checkpoint/file_builders.h"
#include "tests/common/checkpoint/status_testing.h"

namespace octavo {
namespace {

using absl::StatusCode;

absl::StatusOr<TensorTable> Read(const std::string& bytes) {
  static RealignedTensors realigned;
  return ReadSafetensors(AsBytes(bytes), "tiny.safetensors", &realigned);
}

void ExpectFileRefused(const SafetensorsBuilder& builder, StatusCode code,
                       std::initializer_list<absl::string_view> phrases) {
  ExpectRefused(Read(builder.Build()).status(), code, phrases);
}

// A file of one tensor with this header entry and 64 bytes of data.
SafetensorsBuilder One(absl::string_view entry) {
  SafetensorsBuilder builder;
  builder.Raw("w", entry, std::string(64, '\1'));
  return builder;
}

TEST(ReadSafetensors, ReadsTheThreeFloatTypes) {
  SafetensorsBuilder builder;
  builder.Raw("__metadata__", R"({"format":"pt"})");
  builder.Tensor("a", {2, 3}, "F32", CountingFloats(6));
  builder.Tensor("b", {4}, "F16", std::string(8, '\1'));
  builder.Tensor("c", {2, 1}, "BF16", std::string(4, '\2'));
  const std::string bytes = builder.Build();
  const auto table = Read(bytes);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->size(), 3u);
  const TensorRef& a = table->at("a");
  EXPECT_EQ(a.dtype, DType::kF32);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(a.data, CountingFloats(6).data(), 24), 0);
  EXPECT_EQ(table->at("b").dtype, DType::kF16);
  EXPECT_EQ(table->at("c").dtype, DType::kBF16);
  EXPECT_EQ(table->at("c").bytes, 4);
}

TEST(ReadSafetensors, CopiesTensorsThatLieAtOddAddresses) {
  for (size_t pad = 0; pad < 4; ++pad) {
    SafetensorsBuilder builder;
    builder.header_multiple = 1;
    builder.F32("w" + std::string(pad, '_'), {5});
    const std::string bytes = builder.Build();
    RealignedTensors realigned;
    const auto table = ReadSafetensors(AsBytes(bytes), "odd.safetensors", &realigned);
    ASSERT_TRUE(table.ok()) << table.status();
    const TensorRef& tensor = table->begin()->second;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data) % 4, 0u);
    EXPECT_EQ(std::memcmp(tensor.data, CountingFloats(5).data(), 20), 0);
  }
}

TEST(ReadSafetensors, RefusesEveryCutOfAFile) {
  SafetensorsBuilder builder;
  builder.F32("a", {4}).F32("b", {4});
  const std::string whole = builder.Build();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    EXPECT_EQ(Read(cut).status().code(), StatusCode::kDataLoss) << size;
  }
}

TEST(ReadSafetensors, RefusesAbsurdHeaders) {
  ExpectRefused(Read(Bytes<uint64_t>(UINT64_MAX) + "{}").status(), StatusCode::kInvalidArgument,
                {"header length is 18446744073709551615", "limit is 33554432"});
  ExpectRefused(Read(Bytes<uint64_t>(100) + "{}").status(), StatusCode::kDataLoss,
                {"header length is 100", "only 2 bytes follow"});
  ExpectRefused(Read(Bytes<uint64_t>(2) + "[]").status(), StatusCode::kInvalidArgument,
                {"an object is expected"});
  ExpectRefused(Read(Bytes<uint64_t>(2) + "{x").status(), StatusCode::kInvalidArgument,
                {"tiny.safetensors", "not valid JSON"});
}

TEST(ReadSafetensors, RefusesDuplicateTensors) {
  SafetensorsBuilder builder;
  builder.F32("w", {4}).F32("w", {4});
  ExpectFileRefused(builder, StatusCode::kInvalidArgument, {"duplicate key \"w\""});
}

TEST(ReadSafetensors, RefusesOffsetsOutOfRange) {
  ExpectFileRefused(One(R"({"dtype":"F32","shape":[17],"data_offsets":[0,68]})"),
                    StatusCode::kDataLoss, {"\"w\"", "[0, 68]", "64 bytes long"});
  ExpectFileRefused(One(R"({"dtype":"F32","shape":[4],"data_offsets":[-16,0]})"),
                    StatusCode::kInvalidArgument, {"\"w\"", "[-16, 0]"});
  ExpectFileRefused(One(R"({"dtype":"F32","shape":[4],"data_offsets":[32,16]})"),
                    StatusCode::kInvalidArgument, {"[32, 16]", "begin <= end"});
  ExpectFileRefused(One(R"({"dtype":"F32","shape":[4],"data_offsets":[0,18446744073709551615]})"),
                    StatusCode::kInvalidArgument, {"data_offsets", "63 bits"});
  ExpectFileRefused(One(R"({"dtype":"F32","shape":[4],"data_offsets":[0]})"),
                    StatusCode::kInvalidArgument, {"data_offsets", "two integers"});
  ExpectFileRefused(One(R"({"dtype":"F32","shape":[4]})"), StatusCode::kInvalidArgument,
                    {"data_offsets is missing"});
}

TEST(ReadSafetensors, RefusesOverlappingTensors) {
  SafetensorsBuilder builder = One(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})");
  builder.Raw("v", R"({"dtype":"F32","shape":[4],"data_offsets":[12,28]})");
  ExpectFileRefused(builder, StatusCode::kInvalidArgument,
                    {"tiny.safetensors", "\"w\" and \"v\" share bytes", "starts 12 after"});
}

TEST(ReadSafetensors, RefusesShapesThatContradictTheOffsets) {
  ExpectFileRefused(One(R"({"dtype":"F32","shape":[2,2],"data_offsets":[0,64]})"),
                    StatusCode::kInvalidArgument, {"\"w\"", "spans 64 bytes", "want 16"});
  ExpectFileRefused(One(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,64]})"),
                    StatusCode::kInvalidArgument, {"[4294967296, 4294967296]", "63 bits"});
  ExpectFileRefused(One(R"({"dtype":"F32","shape":[-4],"data_offsets":[0,16]})"),
                    StatusCode::kInvalidArgument, {"[-4]", "positive"});
  ExpectFileRefused(One(R"({"dtype":"F32","shape":["4"],"data_offsets":[0,16]})"),
                    StatusCode::kInvalidArgument, {"shape", "\"4\"", "integers"});
  ExpectFileRefused(One(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,16]})"),
                    StatusCode::kInvalidArgument, {"9 dimensions", "limit is 8"});
}

TEST(ReadSafetensors, RefusesOtherTypesByName) {
  ExpectFileRefused(One(R"({"dtype":"F8_E4M3","shape":[64],"data_offsets":[0,64]})"),
                    StatusCode::kUnimplemented, {"\"w\"", "F8_E4M3", "F32, F16 and BF16"});
}

TEST(ParseShardIndex, ListsShardsAndTensors) {
  const auto index = ParseShardIndex(
      R"({"metadata": {"total_size": 9},
          "weight_map": {"b": "2.safetensors", "a": "1.safetensors", "c": "2.safetensors"}})",
      "i.json");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->files, (std::vector<std::string>{"1.safetensors", "2.safetensors"}));
  EXPECT_EQ(index->tensors.size(), 3u);
}

TEST(ParseShardIndex, RefusesNamesOutsideTheFolder) {
  for (const char* file : {"../x.safetensors", "/etc/passwd", "a/b.safetensors", "x.bin", ""}) {
    ExpectRefused(
        ParseShardIndex(absl::StrCat(R"({"weight_map": {"a": ")", file, "\"}}"), "i.json").status(),
        StatusCode::kInvalidArgument, {"i.json", "tensor \"a\"", "same folder"});
  }
  ExpectRefused(ParseShardIndex(R"({"weight_map": {}})", "i.json").status(),
                StatusCode::kInvalidArgument, {"0 files"});
  ExpectRefused(ParseShardIndex("{}", "i.json").status(), StatusCode::kInvalidArgument,
                {"weight_map is missing"});
}

}  // namespace
}  // namespace octavo
