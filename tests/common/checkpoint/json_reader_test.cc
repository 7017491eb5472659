#include "common/checkpoint/json_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/common/checkpoint/status_testing.h"

namespace octavo {
namespace {

using absl::StatusCode;

absl::StatusOr<Json> Parse(absl::string_view text) { return ParseJson(text, "f.json", 1 << 20); }

TEST(ParseJson, BuildsTheSameTreeAsTheLibrary) {
  const std::string text =
      R"({"a": [1, -2, 3.5, true, null, "x", [], {}, [[2], {"b": {"c": [9]}}]], "d": {"e": "é"}})";
  const auto json = Parse(text);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json, Json::parse(text));
}

TEST(ParseJson, RefusesDuplicateKeysAtAnyDepth) {
  ExpectRefused(Parse(R"({"a": 1, "a": 1})").status(), StatusCode::kInvalidArgument,
                {"f.json", "duplicate key \"a\""});
  ExpectRefused(Parse(R"([{"x": {"b": 1, "c": 2, "b": 3}}])").status(),
                StatusCode::kInvalidArgument, {"duplicate key \"b\""});
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (absl::string_view text : {"", "{", "[1,]", "{\"a\"}", "1 2", "nul", "\"\xff\"", "[1e999]"}) {
    ExpectRefused(Parse(text).status(), StatusCode::kInvalidArgument, {"f.json", "not valid JSON"});
  }
}

TEST(ParseJson, BoundsDepthAndSize) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_TRUE(Parse(nested(kMaxJsonDepth)).ok());
  ExpectRefused(Parse(nested(kMaxJsonDepth + 1)).status(), StatusCode::kInvalidArgument,
                {"nested deeper than 64"});
  ExpectRefused(Parse(std::string(500000, '[')).status(), StatusCode::kInvalidArgument,
                {"nested deeper than 64"});
  ExpectRefused(ParseJson("[1,2,3]", "f.json", 6).status(), StatusCode::kInvalidArgument,
                {"7 bytes", "limit is 6"});
}

TEST(JsonObject, NamesFileKeyValueAndLimit) {
  const Json json = Json::parse(R"({"n": 7, "big": 18446744073709551615, "s": "x", "z": null,
                                    "o": {"f": 1.5}})");
  const JsonObject top = *JsonObject::From(json, "f.json", "");
  EXPECT_EQ(top.Integer("n", 0, 7)->value(), 7);
  EXPECT_FALSE(top.Integer("absent", 0, 7)->has_value());
  EXPECT_FALSE(top.Integer("z", 0, 7)->has_value());
  EXPECT_EQ(top.Number("n")->value(), 7.0);
  EXPECT_EQ(top.Object("o")->value().Number("f")->value(), 1.5);
  ExpectRefused(top.Integer("n", 0, 6).status(), StatusCode::kInvalidArgument,
                {"f.json: n is 7; 0 to 6 are valid"});
  ExpectRefused(top.Integer("big", 0, INT64_MAX).status(), StatusCode::kInvalidArgument,
                {"18446744073709551615"});
  ExpectRefused(top.Object("o")->value().Integer("f", 0, 6).status(), StatusCode::kInvalidArgument,
                {"f.json: o.f is 1.5; an integer is expected"});
  ExpectRefused(top.Bool("s").status(), StatusCode::kInvalidArgument, {"s is \"x\""});
  ExpectRefused(top.String("o").status(), StatusCode::kInvalidArgument, {"o is an object of 1"});
  ExpectRefused(top.Array("n").status(), StatusCode::kInvalidArgument, {"an array is expected"});
  ExpectRefused(JsonObject::From(json["n"], "f.json", "").status(), StatusCode::kInvalidArgument,
                {"the file is 7; an object is expected"});
}

}  // namespace
}  // namespace octavo
