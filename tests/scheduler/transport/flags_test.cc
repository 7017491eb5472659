#include "scheduler/transport/flags.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/transport/hash_model.h"

namespace octavo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

SchedulerFlags Parse(const std::string& line) {
  CLI::App app;
  SchedulerFlags flags;
  AddSchedulerFlags(app, &flags, /*embedded=*/false);
  app.parse(line);
  return flags;
}

TEST(SchedulerFlags, HaveTheDefaultsThatTheHelpPromises) {
  const SchedulerFlags flags = Parse("");
  EXPECT_EQ(flags.host, "127.0.0.1");
  EXPECT_EQ(flags.port, 50051);
  EXPECT_EQ(flags.metrics_port, 9400);
  EXPECT_EQ(flags.max_num_seqs, 256);
  EXPECT_EQ(flags.max_num_batched_tokens, 2048);
  EXPECT_EQ(flags.block_size, 16);
  ServedModel model = MakeHashModel();
  const auto options = MakeEngineOptions(flags, &model);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(model.name, "hash");
  EXPECT_EQ(options->scheduler.max_model_len, 512);
  EXPECT_EQ(options->group.config.kv_dtype, DType::kBF16);
  EXPECT_EQ(options->scheduler.preemption_mode, PreemptionMode::kAuto);
  EXPECT_EQ(options->scheduler.preemption_granularity, PreemptionGranularity::kBlock);
  EXPECT_EQ(options->group.model.digest, "digest-of-hash");
  EXPECT_TRUE(options->scheduler.prefix_cache);
  EXPECT_EQ(options->scheduler.model_revision, "digest-of-hash");
  EXPECT_EQ(options->scheduler.kv_dtype, "bf16");
  EXPECT_EQ(options->scheduler.prefix_cache_key.size(), 32u);
  EXPECT_EQ(model.max_choices, 256);
}

TEST(SchedulerFlags, PrefixCachingCanBeSwitchedOff) {
  EXPECT_TRUE(Parse("--enable-prefix-caching").enable_prefix_caching);
  EXPECT_FALSE(Parse("--no-enable-prefix-caching").enable_prefix_caching);
  ServedModel model = MakeHashModel();
  EXPECT_FALSE(
      MakeEngineOptions(Parse("--no-enable-prefix-caching"), &model)->scheduler.prefix_cache);
}

TEST(SchedulerFlags, ReachTheEngine) {
  const SchedulerFlags flags = Parse(
      "--workers a:1,b:2 --block-size 32 --kv-cache-dtype float32 --max-model-len 100 "
      "--max-num-seqs 4 --max-num-batched-tokens 64 --max-prefill-chunk 7 --max-queued-requests 9 "
      "--max-queued-tokens 10 --kv-watermark 0.5 --num-gpu-blocks-override 77 "
      "--served-model-name other --expected-mean-tokens 40 --preemption-mode swap "
      "--preemption-granularity request --preemption-resume-share 0.75 --max-preemptions 3");
  EXPECT_THAT(flags.workers, ElementsAre("a:1", "b:2"));
  ServedModel model = MakeHashModel();
  const auto options = MakeEngineOptions(flags, &model);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(model.name, "other");
  EXPECT_EQ(model.max_model_len, 100);
  EXPECT_EQ(options->scheduler.block_size, 32);
  EXPECT_EQ(options->group.config.block_size, 32);
  EXPECT_EQ(options->group.config.kv_dtype, DType::kF32);
  EXPECT_EQ(options->scheduler.max_prefill_chunk, 7);
  EXPECT_EQ(options->scheduler.max_queued_requests, 9);
  EXPECT_EQ(options->scheduler.max_queued_tokens, 10);
  EXPECT_EQ(options->scheduler.kv_watermark, 0.5);
  EXPECT_EQ(options->group.num_blocks_override, 77);
  EXPECT_EQ(options->expected_mean_tokens, 40);
  EXPECT_EQ(options->scheduler.preemption_mode, PreemptionMode::kSwap);
  EXPECT_EQ(options->scheduler.preemption_granularity, PreemptionGranularity::kRequest);
  EXPECT_EQ(options->scheduler.preemption_resume_share, 0.75);
  EXPECT_EQ(options->scheduler.max_preemptions, 3);
}

TEST(SchedulerFlags, WhatContradictsIsNamed) {
  ServedModel model = MakeHashModel();
  EXPECT_THAT(MakeEngineOptions(Parse("--max-model-len 513"), &model).status().message(),
              HasSubstr("--max-model-len is 513; model hash was made for at most 512"));
  EXPECT_THAT(MakeEngineOptions(Parse("--max-num-batched-tokens 100"), &model).status().message(),
              HasSubstr("--max-num-batched-tokens is 100; it must be at least --max-num-seqs"));
  for (const char* bad :
       {"--block-size 12", "--kv-cache-dtype int4", "--port 70000", "--kv-watermark 1",
        "--preemption-mode never", "--preemption-resume-share 1.5", "--max-num-seqs 0",
        "--num-gpu-blocks-override 0"})
    EXPECT_THROW(Parse(bad), CLI::ParseError) << bad;
}

TEST(SchedulerFlags, EmbeddedLeavesOutWhatServeHasOnce) {
  CLI::App app;
  SchedulerFlags flags;
  AddSchedulerFlags(app, &flags, /*embedded=*/true);
  EXPECT_EQ(app.get_option_no_throw("--workers"), nullptr);
  EXPECT_EQ(app.get_option_no_throw("--log-level"), nullptr);
  EXPECT_NE(app.get_option_no_throw("--model"), nullptr);
}

}  // namespace
}  // namespace octavo
