// The kernel against the CPU backend's sampler: the same tokens and the same bits of
// log-probabilities, for the same logits.
#include "worker/cuda/kernels/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/worker/cuda/kernels/kernel_testing.h"
#include "worker/cpu/sample.h"
#include "worker/cuda/row_sampling.h"

namespace octavo::cuda {
namespace {

using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Batch {
  int32_t vocabulary = 0;
  int64_t stride = 0;
  std::vector<float> logits;  // [rows, stride]
  std::vector<SampleRow> rows;

  const float* row(size_t i) const { return logits.data() + static_cast<int64_t>(i) * stride; }
};

struct Sampled {
  std::string error;  // of the launch or the kernel
  std::vector<absl::StatusOr<SampleOutput>> outputs;
  std::vector<int32_t> tokens;
};

Sampled RunKernel(const Batch& batch) {
  const DeviceStream stream;
  std::vector<SamplingRowArgs> row_args;
  SamplingArgs args;
  for (const SampleRow& row : batch.rows) {
    row_args.push_back(RowArgsOf(row));
    args.max_top = std::max(args.max_top, row.sampling.num_logprobs);
  }
  const auto rows = static_cast<int32_t>(batch.rows.size());
  const DeviceArray<float> logits(batch.logits);
  const DeviceArray<SamplingRowArgs> device_args(row_args);
  const DeviceArray<std::byte> sampled(SampledBytes(rows, args.max_top));
  const DeviceArray<int32_t> tokens(batch.rows.size());
  args.logits = logits.data();
  args.stride = batch.stride;
  args.rows = rows;
  args.vocabulary = batch.vocabulary;
  args.row_args = device_args.data();
  args.sampled = sampled.data();
  args.tokens = tokens.data();
  Sampled result;
  result.error = Finish(stream, LaunchSampling(args, stream));
  if (!result.error.empty()) return result;
  const std::vector<std::byte> bytes = sampled.Get();
  const auto* headers = reinterpret_cast<const SampledRow*>(bytes.data());
  const auto* tops = reinterpret_cast<const TopLogit*>(headers + rows);
  for (int32_t i = 0; i < rows; ++i)
    result.outputs.push_back(
        OutputOf(headers[i], tops + i * args.max_top, row_args[static_cast<size_t>(i)]));
  result.tokens = tokens.Get();
  return result;
}

void ExpectTheCpusChoices(const Batch& batch) {
  const Sampled sampled = RunKernel(batch);
  ASSERT_EQ(sampled.error, "");
  RowSampler sampler;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const SampleRow& row = batch.rows[i];
    SCOPED_TRACE(testing::Message()
                 << "row " << i << " of vocabulary " << batch.vocabulary << ": T "
                 << row.sampling.temperature << " k " << row.sampling.top_k << " p "
                 << row.sampling.top_p << " min_p " << row.sampling.min_p << " logprobs "
                 << row.sampling.num_logprobs << " position " << row.position);
    const absl::StatusOr<SampleOutput> cpu =
        sampler.Sample({batch.row(i), static_cast<size_t>(batch.vocabulary)}, row);
    const absl::StatusOr<SampleOutput>& ours = sampled.outputs[i];
    ASSERT_EQ(ours.status().code(), cpu.status().code());
    if (!cpu.ok()) {
      EXPECT_EQ(sampled.tokens[i], 0);
      continue;
    }
    ASSERT_EQ(ours->token, cpu->token);
    EXPECT_EQ(sampled.tokens[i], cpu->token);
    EXPECT_EQ(ours->logprob, cpu->logprob);
    ASSERT_EQ(ours->top.size(), cpu->top.size());
    for (size_t n = 0; n < cpu->top.size(); ++n) {
      ASSERT_EQ(ours->top[n].token, cpu->top[n].token) << n;
      ASSERT_EQ(ours->top[n].logprob, cpu->top[n].logprob) << n;
    }
  }
}

template <typename T>
T OneOf(std::mt19937_64& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

SampleRow RandomRow(std::mt19937_64& random, int32_t vocabulary) {
  SampleRow row;
  row.sampling.temperature = OneOf(random, {0.0f, 1.0f, 0.7f, 1.5f, 0.3f, 1e-4f, 1e30f});
  row.sampling.top_k = OneOf(random, {0, 0, 1, 5, 40, 900});
  row.sampling.top_p = OneOf(random, {1.0f, 0.1f, 0.5f, 0.9f, 0.95f, 0.999f});
  row.sampling.min_p = OneOf(random, {0.0f, 0.0f, 0.05f, 0.3f, 1.0f});
  row.sampling.seed = random();
  row.sampling.num_logprobs = OneOf(random, {-1, 0, 3, 20, 64});
  row.choice_index = static_cast<uint32_t>(random() % 5);
  row.position = static_cast<int64_t>(random() % 100'000);
  if (random() % 8 == 0)
    row.target = static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary));
  return row;
}

Batch RandomBatch(std::mt19937_64& random, int32_t vocabulary, int rows) {
  Batch batch;
  batch.vocabulary = vocabulary;
  batch.stride = vocabulary + static_cast<int64_t>(random() % 3) * 4;
  for (int r = 0; r < rows; ++r) {
    const float spread = OneOf(random, {0.01f, 1.0f, 4.0f, 30.0f});
    std::vector<float> row = NormalFloats(static_cast<size_t>(batch.stride), spread, random());
    const uint64_t kind = random() % 6;
    for (float& logit : row) {
      if (kind == 0) logit = std::round(logit);  // ties, zeros of both signs
      if (kind == 1 && random() % 3 == 0) logit = -kInfinity;
    }
    if (kind == 2) std::fill(row.begin(), row.end(), -1.5f);
    row[0] = std::isinf(row[0]) ? 0.25f : row[0];
    batch.logits.insert(batch.logits.end(), row.begin(), row.end());
    batch.rows.push_back(RandomRow(random, vocabulary));
  }
  return batch;
}

TEST(Sampling, ChoosesTheCpuBackendsTokens) {
  std::mt19937_64 random(31);
  for (const int32_t vocabulary : {1, 2, 15, 32, 33, 100, 511, 512, 700, 1025, 2048, 2049, 5003})
    ExpectTheCpusChoices(RandomBatch(random, vocabulary, 24));
}

TEST(Sampling, ChoosesThemFromALargeVocabulary) {
  std::mt19937_64 random(32);
  ExpectTheCpusChoices(RandomBatch(random, 49152, 6));
}

TEST(Sampling, TakesTheLowestIdOnTies) {
  Batch batch;
  batch.vocabulary = 1000;
  batch.stride = 1000;
  for (const int32_t first : {0, 7, 999}) {
    std::vector<float> row(1000, -3.0f);
    for (size_t i = static_cast<size_t>(first); i < 1000; i += 31) row[i] = 2.5f;
    batch.logits.insert(batch.logits.end(), row.begin(), row.end());
    SampleRow greedy;
    greedy.sampling.temperature = 0;
    greedy.sampling.num_logprobs = 64;
    batch.rows.push_back(greedy);
  }
  const Sampled sampled = RunKernel(batch);
  ASSERT_EQ(sampled.error, "");
  EXPECT_EQ(sampled.tokens, (std::vector<int32_t>{0, 7, 999}));
  ExpectTheCpusChoices(batch);
}

TEST(Sampling, CutsTopPBetweenEqualLogits) {
  Batch batch;
  batch.vocabulary = 3000;
  batch.stride = 3000;
  for (int i = 0; i < 12; ++i) {
    batch.logits.insert(batch.logits.end(), 3000, i % 2 == 0 ? 1.5f : -0.0f);
    SampleRow row;
    row.sampling.top_p = 0.25f * static_cast<float>(1 + i / 4);
    row.sampling.seed = 77;
    row.position = i;
    row.sampling.num_logprobs = i;
    batch.rows.push_back(row);
  }
  ExpectTheCpusChoices(batch);
}

TEST(Sampling, MarksBadRows) {
  Batch batch;
  batch.vocabulary = 40;
  batch.stride = 40;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    for (const bool all : {false, true}) {
      std::vector<float> row(40, 0.5f);
      if (all) std::fill(row.begin(), row.end(), bad);
      row[33] = bad;
      batch.logits.insert(batch.logits.end(), row.begin(), row.end());
      SampleRow sample;
      sample.sampling.num_logprobs = 5;
      batch.rows.push_back(sample);
    }
  }
  const Sampled sampled = RunKernel(batch);
  ASSERT_EQ(sampled.error, "");
  for (size_t i = 0; i < 8; ++i)
    EXPECT_EQ(sampled.outputs[i].status().code(),
              i == 6 ? absl::StatusCode::kOk : absl::StatusCode::kInternal)
        << i;
  ExpectTheCpusChoices(batch);
}

TEST(Sampling, RefusesWhatItCannotHold) {
  const DeviceStream stream;
  const DeviceArray<float> logits(size_t{8});
  const DeviceArray<SamplingRowArgs> row_args(std::vector<SamplingRowArgs>(1));
  const DeviceArray<std::byte> sampled(SampledBytes(1, 64));
  SamplingArgs args = {logits.data(), 8, 1, 8, row_args.data(), 65, sampled.data(), nullptr};
  const auto refusal = [&] { return std::string(LaunchSampling(args, stream).message()); };
  EXPECT_THAT(refusal(), HasSubstr("max_top is 65; it must be between 0 and 64"));
  args.max_top = 0;
  args.vocabulary = 1 << 20;
  EXPECT_THAT(refusal(), HasSubstr("vocabulary is 1048576; it must be between 1 and 524288"));
  args.vocabulary = 8;
  args.stride = 7;
  EXPECT_THAT(refusal(), HasSubstr("the stride of logits is 7"));
}

}  // namespace
}  // namespace octavo::cuda
