#include "worker/runtime/make_device.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/model/loaded_model.h"

namespace octavo {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

std::unique_ptr<Checkpoint> Open(const std::string& tiny) {
  return *Checkpoint::Open(TestDataPath("tiny/" + tiny));
}

TEST(MakeDevice, AutoFollowsTheCheckpointsMatrices) {
  EXPECT_EQ(*AutoActivationDType(*Open("qwen2")), DType::kBF16);
  EXPECT_EQ(*AutoActivationDType(*Open("llama-tied-f32")), DType::kF32);
  EXPECT_EQ(*AutoActivationDType(*Open("llama-linear-f16")), DType::kF32);
  EXPECT_EQ(*AutoActivationDType(**Checkpoint::Open(RealModelPath())), DType::kI8);
}

TEST(MakeDevice, ReportsTheNumericPathThatWasAskedFor) {
  const auto checkpoint = Open("qwen2");
  EXPECT_EQ((*MakeDevice({.dtype = "float32", .isa = "avx2"}, *checkpoint))->numeric_path(),
            "cpu/avx2/float32");
  EXPECT_THAT((*MakeDevice({}, *checkpoint))->numeric_path(), EndsWith("/bfloat16"));
}

TEST(MakeDevice, RefusesUnknownOptionsByName) {
  const auto checkpoint = Open("qwen2");
  const auto error = [&](const DeviceOptions& options) {
    return std::string(MakeDevice(options, *checkpoint).status().message());
  };
  EXPECT_THAT(error({.dtype = "fp16"}), HasSubstr("--dtype is fp16"));
  EXPECT_THAT(error({.dtype = "nonsense"}), HasSubstr("--dtype is nonsense"));
  EXPECT_THAT(error({.isa = "sse2"}), HasSubstr("--isa is sse2"));
  EXPECT_THAT(error({.threads = -1}), HasSubstr("-1"));
  EXPECT_THAT(error({.backend = "tpu"}), HasSubstr("--backend is tpu; it must be cpu or cuda"));
}

TEST(MakeDevice, AutoKeepsStoredWeightsOfModelsBeyondAGibibyte) {
  EXPECT_FALSE(AutoKeepsQuantized((*Checkpoint::Open(RealModelPath()))->config()));  // 0.27 GB
  ModelConfig config;  // Llama-3-8B: 16 GB
  config.num_layers = 32;
  config.hidden_size = 4096;
  config.num_heads = 32;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  config.intermediate_size = 14336;
  config.vocab_size = 128256;
  EXPECT_TRUE(AutoKeepsQuantized(config));
}

// A build with it refuses on a machine without so many cards.
TEST(MakeDevice, CudaNeedsABuildWithItAndACard) {
  const absl::Status status = MakeDevice({.backend = "cuda", .index = 63}, *Open("qwen2")).status();
  if (status.code() == absl::StatusCode::kUnimplemented) {
    EXPECT_EQ(status.message(), "--backend is cuda; this build has only cpu");
  } else {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  }
}

}  // namespace
}  // namespace octavo
