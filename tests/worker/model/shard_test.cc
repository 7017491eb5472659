#include "worker/model/shard.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/model/greedy_driver.h"
#include "tests/worker/model/loaded_model.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

constexpr double kLogprobTolerance = 1e-3;
// Below this distance between the best two, another order of adding may choose otherwise.
constexpr double kFirmMargin = 0.01;

const std::vector<GreedyPrompt> kPrompts = {
    {{10, 20, 30}, 12}, {{7}, 12}, {{100, 3, 200, 4, 50, 60, 70, 80, 90, 11, 12}, 12}};

class ShardedFamily : public testing::TestWithParam<const char*> {};

TEST_P(ShardedFamily, RanksTogetherComputeWhatOneDoes) {
  const std::string path = TestDataPath(std::string("tiny/") + GetParam());
  const GreedyOptions options = {.block_size = 8, .chunk = 4};
  const auto expected = RunGreedy(LoadForTest(path), kPrompts, options);
  for (const int32_t size : {2, 3, 4}) {
    const auto got = RunGreedy(LoadRanksForTest(path, size), kPrompts, options);
    int compared = 0;
    for (size_t i = 0; i < kPrompts.size(); ++i) {
      ASSERT_EQ(got[i].size(), expected[i].size());
      for (size_t step = 0; step < got[i].size(); ++step) {
        const SampledToken& one = expected[i][step];
        const SampledToken& many = got[i][step];
        EXPECT_NEAR(many.top[0].logprob, one.top[0].logprob, kLogprobTolerance)
            << size << " ranks, prompt " << i << " step " << step;
        if (one.top[0].logprob - one.top[1].logprob < kFirmMargin) break;
        ASSERT_EQ(many.token, one.token) << size << " ranks, prompt " << i << " step " << step;
        ++compared;
      }
    }
    EXPECT_GT(compared, 8) << size << " ranks";
  }
}

TEST_P(ShardedFamily, BatchAndChunksChangeNoBitOfAGroup) {  // det.2
  const std::string path = TestDataPath(std::string("tiny/") + GetParam());
  const std::vector<LoadedModel> ranks = LoadRanksForTest(path, 3);
  const auto batched = RunGreedy(ranks, kPrompts, {.block_size = 8});
  EXPECT_EQ(RunGreedy(ranks, kPrompts, {.block_size = 8, .chunk = 3}), batched);
  EXPECT_EQ(RunGreedy(ranks, kPrompts, {.block_size = 16, .batched = false}), batched);
}

INSTANTIATE_TEST_SUITE_P(Tiny, ShardedFamily,
                         testing::Values("llama-tied-f32", "llama3-scaling", "llama-yarn-biases",
                                         "llama-linear-f16", "mistral-window", "qwen2", "qwen3",
                                         "gemma2-softcaps", "gemma3-windows"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(Shard, WeightsOfAllRanksAreThoseOfOne) {
  const std::string path = TestDataPath("tiny/llama3-scaling");
  const LoadedModel whole = LoadForTest(path);
  int64_t embedding = 0, head = 0, down = 0, qkv = 0;
  for (const LoadedModel& rank : LoadRanksForTest(path, 2)) {
    const LayerWeights& layer = rank.model->layers[0];
    embedding += rank.model->embedding->rows();
    head += rank.model->head->out_features();
    down += layer.down->in_features();
    qkv += layer.qkv->out_features();
    EXPECT_EQ(rank.model->config.num_kv_heads, 1);
    EXPECT_LT(rank.model->weight_bytes, whole.model->weight_bytes * 2 / 3);
  }
  const LayerWeights& layer = whole.model->layers[0];
  EXPECT_EQ(embedding, whole.model->embedding->rows());
  EXPECT_EQ(head, whole.model->head->out_features());
  EXPECT_EQ(down, layer.down->in_features());
  EXPECT_EQ(qkv, layer.qkv->out_features());
}

TEST(Shard, TooManyRanksAreRefusedWithTheNumbers) {
  const auto checkpoint = Checkpoint::Open(TestDataPath("tiny/qwen3")).value();
  EXPECT_THAT(std::string(SplitCheckpoint(*checkpoint, {0, 5}).status().message()),
              HasSubstr("4 query heads, 2 for each of 2 KV heads, are too few for 5 ranks"));
}

TEST(Shard, ColumnsAreViewsOfTheSameBytes) {
  std::vector<float> values(12);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const WeightView whole = {"w", DType::kF32, 3, 4,
                            reinterpret_cast<const std::byte*>(values.data())};
  const WeightView columns = ColumnsOf(whole, {1, 3});
  EXPECT_EQ(columns.cols, 2);
  EXPECT_EQ(columns.row(2), whole.row(2) + 4);
  const WeightView part = RowsOf(columns, {1, 3});
  EXPECT_EQ(part.rows, 2);
  EXPECT_EQ(part.row(1), whole.row(2) + 4);
}

}  // namespace
}  // namespace octavo
