#include "tools/simulate/trace_reader.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo::simulate {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Trace> Csv(const std::string& text) {
  std::istringstream in(text);
  return ReadAzureCsv(in, "a.csv");
}

absl::StatusOr<Trace> Jsonl(const std::string& text) {
  std::istringstream in(text);
  return ReadMooncakeJsonl(in, "m.jsonl");
}

TEST(ReadAzureCsv, TakesDatesAndLetsTheFirstArriveAtZero) {
  const absl::StatusOr<Trace> trace =
      Csv("TIMESTAMP,ContextTokens,GeneratedTokens\n"
          "2023-11-16 18:15:46.6805900,374,44\n"
          "2023-11-16 18:15:50.9305900,396,109\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->requests.size(), 2u);
  EXPECT_EQ(trace->requests[0].arrival_seconds, 0);
  EXPECT_NEAR(trace->requests[1].arrival_seconds, 4.25, 1e-6);
  EXPECT_EQ(trace->requests[1].prompt_tokens, 396);
  EXPECT_EQ(trace->requests[1].output_tokens, 109);
  EXPECT_EQ(trace->LongestRequest(), 505);
  EXPECT_NEAR(trace->Period(), 8.5, 1e-6);
}

TEST(ReadAzureCsv, FindsColumnsByNameAndSortsByArrival) {
  const absl::StatusOr<Trace> trace =
      Csv("user,GeneratedTokens,TIMESTAMP,ContextTokens\r\nx,1,7.5,100\r\ny,2,7,200\r\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->requests[0].prompt_tokens, 200);
  EXPECT_EQ(trace->requests[0].output_tokens, 2);
  EXPECT_EQ(trace->requests[1].arrival_seconds, 0.5);
}

TEST(ReadAzureCsv, NamesTheLineThatIsWrong) {
  EXPECT_THAT(Csv("TIMESTAMP,ContextTokens\n").status().message(), HasSubstr("GeneratedTokens"));
  EXPECT_THAT(Csv("TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n1,-2,3\n").status().message(),
              AllOf(HasSubstr("a.csv line 3"), HasSubstr("ContextTokens is -2")));
  EXPECT_THAT(Csv("TIMESTAMP,ContextTokens,GeneratedTokens\n1,2\n").status().message(),
              HasSubstr("2 columns; 3"));
  EXPECT_THAT(Csv("TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,2,3\n").status().message(),
              HasSubstr("\"noon\""));
  EXPECT_THAT(Csv("TIMESTAMP,ContextTokens,GeneratedTokens\n").status().message(),
              HasSubstr("no requests"));
}

TEST(ReadMooncakeJsonl, KeepsOneHashIdForEach512PromptTokens) {
  const absl::StatusOr<Trace> trace = Jsonl(
      R"({"timestamp": 1000, "input_length": 513, "output_length": 5, "hash_ids": [0, 14, 15]})"
      "\n"
      R"({"timestamp": 3500, "input_length": 100, "output_length": 7})"
      "\n");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->HashIds(trace->requests[0]), ElementsAre(0, 14));
  EXPECT_TRUE(trace->HashIds(trace->requests[1]).empty());
  EXPECT_EQ(trace->requests[1].arrival_seconds, 2.5);
}

TEST(ReadMooncakeJsonl, NamesTheLineThatIsWrong) {
  EXPECT_THAT(Jsonl("{\"timestamp\": 1}\n").status().message(),
              AllOf(HasSubstr("m.jsonl line 1"), HasSubstr("input_length")));
  EXPECT_THAT(Jsonl("{\n").status().message(), HasSubstr("no JSON object"));
  EXPECT_THAT(Jsonl(R"({"timestamp": 0, "input_length": 513, "output_length": 5, "hash_ids": [1]})")
                  .status()
                  .message(),
              HasSubstr("at least 2 ids"));
}

TEST(ReadTraceFile, TellsWhichFileIsMissing) {
  EXPECT_THAT(ReadTraceFile("/no/such/trace.csv").status().message(),
              HasSubstr("/no/such/trace.csv"));
}

TEST(DrawSharegptLike, HasThePapersMeansAndLimits) {
  const Trace trace = DrawSharegptLike(100'000, 3);
  double prompt = 0;
  double output = 0;
  for (const TraceRequest& request : trace.requests) {
    prompt += request.prompt_tokens;
    output += request.output_tokens;
    ASSERT_GE(request.prompt_tokens, 1);
    ASSERT_LE(request.prompt_tokens, 1024);
    ASSERT_GE(request.output_tokens, 1);
    ASSERT_LE(request.output_tokens, 1024);
  }
  // The limit of 1,024 takes a little off the means of 161 and 338.
  EXPECT_NEAR(prompt / 100'000, 158, 3);
  EXPECT_NEAR(output / 100'000, 324, 5);
  EXPECT_FALSE(trace.has_arrivals);
}

TEST(DrawSharegptLike, IsTheSameForTheSameSeed) {
  const Trace a = DrawSharegptLike(100, 7);
  const Trace b = DrawSharegptLike(100, 7);
  const Trace c = DrawSharegptLike(100, 8);
  int differences = 0;
  for (size_t i = 0; i < a.requests.size(); ++i) {
    EXPECT_EQ(a.requests[i].prompt_tokens, b.requests[i].prompt_tokens);
    EXPECT_EQ(a.requests[i].output_tokens, b.requests[i].output_tokens);
    differences += a.requests[i].prompt_tokens != c.requests[i].prompt_tokens ? 1 : 0;
  }
  EXPECT_GT(differences, 80);
}

}  // namespace
}  // namespace octavo::simulate
