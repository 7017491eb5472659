#include "common/rpc/step_codec.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

class Random {
 public:
  explicit Random(uint32_t seed) : bits_(seed) {}
  int32_t Int(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(bits_);
  }
  uint64_t Wide() { return std::uniform_int_distribution<uint64_t>()(bits_); }
  float Unit() { return std::uniform_real_distribution<float>(0.001f, 1.0f)(bits_); }

 private:
  std::mt19937 bits_;
};

StepPlan RandomPlan(Random& random) {
  StepPlan plan{.epoch = static_cast<Epoch>(random.Wide()), .step = random.Wide()};
  for (int i = random.Int(0, 5); i > 0; --i) plan.dropped.push_back(random.Wide());
  for (int i = random.Int(0, 5); i > 0; --i) plan.copies.push_back({2 * i, 2 * i + 1});
  for (int i = random.Int(0, 5); i > 0; --i) plan.swap_outs.push_back({20 + i, 2 * i});
  for (int i = random.Int(0, 5); i > 0; --i) plan.swap_ins.push_back({30 + i, 2 * i + 1});
  for (int i = random.Int(0, 20); i > 0; --i) {
    SeqSlice slice;
    slice.sequence = random.Wide();
    if (random.Int(0, 1) == 1)
      slice.start =
          SequenceStart{.sampling = {.temperature = 2 * random.Unit(),
                                     .top_k = random.Int(0, std::numeric_limits<int32_t>::max()),
                                     .top_p = random.Unit(),
                                     .min_p = random.Unit(),
                                     .seed = random.Wide(),
                                     .num_logprobs = random.Int(-1, kMaxStepLogprobs)},
                        .choice_index = static_cast<uint32_t>(random.Int(0, 9))};
    slice.context_length = random.Int(0, 100000);
    slice.feed_sampled = random.Int(0, 1) == 1;
    slice.num_tokens = slice.feed_sampled ? 1 : random.Int(1, 50);
    if (!slice.feed_sampled)
      for (int t = 0; t < slice.num_tokens; ++t)
        slice.tokens.push_back(random.Int(0, std::numeric_limits<int32_t>::max() - 1));
    for (int b = random.Int(0, 4); b > 0; --b)
      slice.new_blocks.push_back(random.Int(1, std::numeric_limits<int32_t>::max()));
    slice.sample = random.Int(0, 1) == 1;
    for (int f = slice.sample ? random.Int(0, 3) : 0; f > 0; --f)
      slice.forks.push_back({random.Wide(), static_cast<uint32_t>(random.Int(0, 99))});
    for (int r = random.Int(0, 2); r > 0; --r)
      slice.replaced.push_back({random.Int(0, 1000), random.Int(1, 1000000)});
    if (!slice.feed_sampled && random.Int(0, 1) == 1) {
      slice.score.emplace();
      slice.score->first_row = random.Int(0, slice.num_tokens - 1);
      slice.score->num_top = random.Int(0, kMaxTopLogprobs);
      for (int t = random.Int(1, slice.num_tokens - slice.score->first_row); t > 0; --t)
        slice.score->targets.push_back(random.Int(0, 50000));
    }
    plan.slices.push_back(slice);
  }
  return plan;
}

TEST(StepCodec, RandomPlansSurviveTheWire) {
  worker::v1::StepPlan reused;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const StepPlan plan = RandomPlan(random);
    EncodePlan(plan, &reused);
    worker::v1::StepPlan parsed;
    ASSERT_TRUE(parsed.ParseFromString(reused.SerializeAsString()));
    const absl::StatusOr<StepPlan> back = DecodePlan(parsed, {});
    ASSERT_TRUE(back.ok()) << "seed " << seed << ": " << back.status();
    ASSERT_EQ(*back, plan) << "seed " << seed;
  }
}

TEST(StepCodec, RandomResultsSurviveTheWire) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    StepResult result{.epoch = 3,
                      .step = random.Wide(),
                      .compute_seconds = random.Unit(),
                      .swap_out_seconds = random.Unit(),
                      .swap_in_seconds = random.Unit()};
    for (int i = random.Int(0, 20); i > 0; --i) {
      SampledToken sample{
          .sequence = random.Wide(), .token = random.Int(0, 50000), .logprob = -random.Unit()};
      for (int k = random.Int(0, kMaxStepLogprobs); k > 0; --k)
        sample.top.push_back({random.Int(0, 50000), -random.Unit()});
      result.samples.push_back(sample);
    }
    for (int i = random.Int(0, 3); i > 0; --i) {
      SliceScores& scores = result.scores.emplace_back();
      scores.sequence = random.Wide();
      for (int t = random.Int(1, 40); t > 0; --t) {
        ScoredToken& token = scores.tokens.emplace_back();
        token.token = random.Int(0, 50000);
        token.logprob = -random.Unit();
        for (int k = random.Int(0, kMaxTopLogprobs); k > 0; --k)
          token.top.push_back({random.Int(0, 50000), -random.Unit()});
      }
    }
    worker::v1::StepResult message;
    EncodeResult(result, &message);
    const absl::StatusOr<StepResult> back = DecodeResult(message, {});
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->epoch, result.epoch);
    EXPECT_EQ(back->step, result.step);
    EXPECT_EQ(back->samples, result.samples);
    EXPECT_EQ(back->scores, result.scores);
    EXPECT_EQ(back->compute_seconds, result.compute_seconds);
    EXPECT_EQ(back->swap_out_seconds, result.swap_out_seconds);
    EXPECT_EQ(back->swap_in_seconds, result.swap_in_seconds);
  }
}

// A valid plan on which each test below breaks one thing.
worker::v1::StepPlan ValidPlan() {
  StepPlan plan{.epoch = 1, .step = 1, .copies = {{1, 2}}};
  plan.slices.push_back({.sequence = 7,
                         .start = SequenceStart{},
                         .context_length = 0,
                         .num_tokens = 2,
                         .tokens = {5, 6},
                         .new_blocks = {3}});
  worker::v1::StepPlan message;
  EncodePlan(plan, &message);
  return message;
}

constexpr StepLimits kLimits = {.max_num_seqs = 2,
                                .max_num_batched_tokens = 4,
                                .max_model_len = 10,
                                .vocab_size = 100,
                                .num_blocks = 8,
                                .num_swap_blocks = 4};

std::string ErrorOf(const worker::v1::StepPlan& message) {
  const absl::StatusOr<StepPlan> plan = DecodePlan(message, kLimits);
  if (plan.ok()) return "accepted";
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(StepCodec, RefusesWhatBreaksAPlanWithValueAndLimit) {
  EXPECT_EQ(ErrorOf(ValidPlan()), "accepted");
  auto plan = ValidPlan();
  plan.mutable_slices(0)->set_tokens(1, 100);
  EXPECT_EQ(ErrorOf(plan), "token id is 100; it must be between 0 and 99");
  plan = ValidPlan();
  plan.mutable_slices(0)->set_tokens(1, 0xffffffffu);
  EXPECT_THAT(ErrorOf(plan), HasSubstr("token id is 4294967295"));
  plan = ValidPlan();
  plan.mutable_slices(0)->set_new_blocks(0, 0);
  EXPECT_EQ(ErrorOf(plan), "accepted") << "a group with a window does not hold it (kv.7)";
  plan = ValidPlan();
  plan.mutable_slices(0)->set_new_blocks(0, 9);
  EXPECT_EQ(ErrorOf(plan), "block id is 9; it must be between 0 and 8");
  plan = ValidPlan();
  plan.mutable_slices(0)->set_num_tokens(0);
  EXPECT_THAT(ErrorOf(plan), HasSubstr("num_tokens is 0"));
  plan = ValidPlan();
  plan.mutable_slices(0)->set_num_tokens(3);
  EXPECT_THAT(ErrorOf(plan), HasSubstr("carries 2 tokens for 3 positions"));
  plan = ValidPlan();
  plan.mutable_slices(0)->set_feed_sampled(true);
  EXPECT_THAT(ErrorOf(plan), HasSubstr("fed from its last sample"));
  plan = ValidPlan();
  plan.mutable_slices(0)->set_context_length(9);
  EXPECT_EQ(ErrorOf(plan), "context_length is 9; it must be between 0 and 8");
  plan = ValidPlan();
  *plan.add_slices() = plan.slices(0);
  EXPECT_EQ(ErrorOf(plan), "sequence 7 has two slices in one step");
  plan.mutable_slices(1)->set_sequence(8);
  EXPECT_EQ(ErrorOf(plan), "accepted");
  *plan.add_slices() = plan.slices(0);
  EXPECT_EQ(ErrorOf(plan), "3 slices; the limit is 2");
  plan = ValidPlan();
  plan.mutable_copies(0)->set_target(1);
  EXPECT_EQ(ErrorOf(plan), "block 1 is both source and target of copies");
  plan = ValidPlan();
  plan.mutable_slices(0)->mutable_start()->mutable_sampling()->set_temperature(-1);
  EXPECT_THAT(ErrorOf(plan), HasSubstr("temperature is -1"));
}

TEST(StepCodec, RefusesWhatIsNotComputedYet) {
  auto plan = ValidPlan();
  plan.mutable_slices(0)->set_masked(true);
  EXPECT_EQ(ErrorOf(plan), "sequence 7 waits for masks; they are not known here");
  const std::string refused = "rules, counts and typical_p are not known here";
  plan = ValidPlan();
  plan.mutable_slices(0)->mutable_start()->mutable_rules();
  EXPECT_EQ(ErrorOf(plan), refused);
  plan = ValidPlan();
  plan.mutable_slices(0)->mutable_start()->add_counts()->set_token(1);
  EXPECT_EQ(ErrorOf(plan), refused);
  plan = ValidPlan();
  plan.mutable_slices(0)->mutable_start()->mutable_sampling()->set_typical_p(0.5);
  EXPECT_EQ(ErrorOf(plan), refused);
}

TEST(StepCodec, RefusesScoresOfRowsThatAreNotThere) {
  const auto error = [](uint32_t first_row, std::vector<uint32_t> targets, uint32_t num_top) {
    auto plan = ValidPlan();
    auto* score = plan.mutable_slices(0)->mutable_score();
    score->set_first_row(first_row);
    score->mutable_targets()->Add(targets.begin(), targets.end());
    score->set_num_top(num_top);
    return ErrorOf(plan);
  };
  EXPECT_EQ(error(0, {6, 99}, 20), "accepted");
  EXPECT_THAT(error(2, {6}, 0), HasSubstr("first scored row is 2; it must be between 0 and 1"));
  EXPECT_EQ(error(1, {6, 7}, 0), "2 scored rows; the limit is 1");
  EXPECT_THAT(error(0, {}, 0), HasSubstr("wants scores of 0 tokens"));
  EXPECT_THAT(error(0, {100}, 0), HasSubstr("scored token is 100"));
  EXPECT_THAT(error(0, {6}, 21), HasSubstr("num_top of scores is 21"));
}

TEST(StepCodec, RefusesForksAndReplacementsThatCannotBe) {
  auto plan = ValidPlan();
  plan.mutable_slices(0)->add_forks()->set_child(8);
  EXPECT_EQ(ErrorOf(plan), "sequence 7 forks without sampling");
  plan.mutable_slices(0)->set_sample(true);
  EXPECT_EQ(ErrorOf(plan), "accepted");
  plan.mutable_slices(0)->mutable_forks(0)->set_child(7);
  EXPECT_THAT(ErrorOf(plan), HasSubstr("sequence 7 is born twice"));
  plan.mutable_slices(0)->mutable_forks(0)->set_child(8);
  plan.mutable_slices(0)->add_forks()->set_child(9);
  EXPECT_EQ(ErrorOf(plan), "3 samples in one step; the limit is 2");
  plan = ValidPlan();
  auto* replaced = plan.mutable_slices(0)->add_replaced();
  replaced->set_block(9);
  EXPECT_EQ(ErrorOf(plan), "block id is 9; it must be between 1 and 8");
  replaced->set_block(2);
  replaced->set_index(10);
  EXPECT_EQ(ErrorOf(plan), "replaced index is 10; it must be between 0 and 9");
  replaced->set_index(9);
  EXPECT_EQ(ErrorOf(plan), "accepted");
}

TEST(StepCodec, RefusesSwapsThatCannotBe) {  // swap.1
  const auto swap = [](auto* swaps, uint32_t device, uint32_t host) {
    auto* to = swaps->Add();
    to->set_device(device);
    to->set_host(host);
  };
  auto plan = ValidPlan();
  swap(plan.mutable_swap_outs(), 4, 1);
  swap(plan.mutable_swap_ins(), 5, 2);
  EXPECT_EQ(ErrorOf(plan), "accepted");
  swap(plan.mutable_swap_ins(), 4, 3);
  EXPECT_EQ(ErrorOf(plan), "block 4 is named by two swaps");
  plan.mutable_swap_ins(1)->set_device(6);
  plan.mutable_swap_ins(1)->set_host(1);
  EXPECT_EQ(ErrorOf(plan), "host block 1 is named by two swaps");
  plan.mutable_swap_ins(1)->set_host(5);
  EXPECT_EQ(ErrorOf(plan), "host block is 5; it must be between 1 and 4");
  plan.mutable_swap_ins(1)->set_host(3);
  plan.mutable_swap_ins(1)->set_device(9);
  EXPECT_EQ(ErrorOf(plan), "swapped block is 9; it must be between 1 and 8");
}

TEST(StepCodec, RefusesForeignTokensInResults) {
  worker::v1::StepResult message;
  message.add_samples()->set_token(100);
  EXPECT_EQ(DecodeResult(message, kLimits).status().message(),
            "sampled token is 100; it must be between 0 and 99");
  message.mutable_samples(0)->set_token(1);
  message.set_compute_seconds(-1);
  EXPECT_FALSE(DecodeResult(message, kLimits).ok());
  message.set_compute_seconds(1);
  message.set_swap_in_seconds(std::numeric_limits<double>::infinity());
  EXPECT_EQ(DecodeResult(message, kLimits).status().message(), "swap_in_seconds is inf");
}

TEST(StepCodec, ExecutorStructsSurviveTheWire) {
  const WorkerDescription description{.name = "w0",
                                      .device = "cpu",
                                      .numeric_path = "cpu/avx512/float32",
                                      .version = "0.1.0",
                                      .model_name = "m",
                                      .model_digest = "abc",
                                      .kv_shape = {3, 3, 64, {512, 512, 0}},
                                      .vocab_size = 49152,
                                      .max_positions = 8192,
                                      .memory_total_bytes = int64_t{1} << 40,
                                      .memory_free_bytes = 5,
                                      .loaded = true,
                                      .rank = 1,
                                      .world_size = 3};
  worker::v1::DescribeResponse described;
  EncodeDescription(description, &described);
  const auto back = DecodeDescription(described);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->kv_shape, description.kv_shape);
  EXPECT_EQ(back->numeric_path, description.numeric_path);
  EXPECT_EQ(back->model_digest, description.model_digest);
  EXPECT_EQ(back->memory_total_bytes, description.memory_total_bytes);
  EXPECT_TRUE(back->loaded);
  EXPECT_EQ(back->rank, 1);
  EXPECT_EQ(back->world_size, 3);
  described.set_rank(3);
  EXPECT_EQ(DecodeDescription(described).status().message(),
            "rank is 3; it must be between 0 and 2");

  const WorkerConfig config{.epoch = 4,
                            .kv_dtype = DType::kF32,
                            .block_size = 32,
                            .max_model_len = 1024,
                            .max_num_seqs = 64,
                            .max_num_batched_tokens = 512,
                            .num_blocks = 400,
                            .num_swap_blocks = 90,
                            .rank = 1,
                            .world_size = 2,
                            .communicator_addresses = {std::string("a\0b", 3), "c"}};
  worker::v1::ConfigureRequest configured;
  EncodeConfig(config, &configured);
  const auto decoded = DecodeConfig(configured);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->kv_dtype, DType::kF32);
  EXPECT_EQ(decoded->num_blocks, 400);
  EXPECT_EQ(decoded->num_swap_blocks, 90);
  EXPECT_EQ(decoded->max_num_batched_tokens, 512);
  EXPECT_EQ(decoded->rank, 1);
  EXPECT_EQ(decoded->world_size, 2);
  EXPECT_EQ(decoded->communicator_addresses, config.communicator_addresses);
  configured.add_communicator_addresses("d");
  EXPECT_EQ(DecodeConfig(configured).status().message(),
            "communicator_addresses is 3; it must be between 0 and 2");
  configured.set_world_size(65);
  EXPECT_EQ(DecodeConfig(configured).status().message(),
            "world_size is 65; it must be between 1 and 64");
  EncodeConfig(config, &configured);
  configured.set_kv_dtype("Q4_0");
  EXPECT_THAT(DecodeConfig(configured).status().message(), HasSubstr("kv_dtype is \"Q4_0\""));

  worker::v1::ConfigureResponse capacity;
  EncodeCapacity({.num_blocks = 7,
                  .weight_bytes = 9,
                  .budget_reason = "because",
                  .num_swap_blocks = 5,
                  .communicator_address = "here"},
                 &capacity);
  EXPECT_EQ(DecodeCapacity(capacity)->num_swap_blocks, 5);
  EXPECT_EQ(DecodeCapacity(capacity)->num_blocks, 7);
  EXPECT_EQ(DecodeCapacity(capacity)->communicator_address, "here");
  EXPECT_EQ(DecodeCapacity(capacity)->budget_reason, "because");
  capacity.set_num_blocks(uint64_t{1} << 40);
  EXPECT_FALSE(DecodeCapacity(capacity).ok());
}

}  // namespace
}  // namespace octavo
