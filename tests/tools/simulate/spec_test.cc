#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/simulate/device_spec.h"
#include "tools/simulate/model_spec.h"

namespace octavo::simulate {
namespace {

using ::testing::HasSubstr;

TEST(ModelPreset, HasTheWeightsThatTheModelsAreNamedFor) {
  const ModelSpec llama = *ModelPreset("llama-3-8b");
  EXPECT_NEAR(llama.stored_bytes() / 2, 8.03e9, 0.005e9);
  EXPECT_NEAR(llama.streamed_bytes(), 15.01e9, 0.005e9);
  const ModelSpec opt = *ModelPreset("opt-13b");
  EXPECT_NEAR(opt.stored_bytes() / 2, 12.84e9, 0.01e9);
  const ModelSpec smollm = *ModelPreset("smollm2-135m");
  EXPECT_NEAR(smollm.streamed_bytes(), 96.5e6, 0.5e6);
}

TEST(ModelPreset, UnknownNamesListTheKnown) {
  EXPECT_THAT(ModelPreset("gpt-5").status().message(),
              HasSubstr("llama-3-8b, llama-3-70b, opt-13b"));
  EXPECT_THAT(DevicePreset("tpu").status().message(), HasSubstr("a100-40"));
}

TEST(ParseModel, TakesAConfigJsonOfHuggingFace) {
  const absl::StatusOr<ModelSpec> model = ParseModel(
      R"({"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
          "intermediate_size": 128, "vocab_size": 1000, "tie_word_embeddings": true})");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->kv_heads, 4);
  EXPECT_EQ(model->head_dim, 16);
  // 2 layers x (4 x 64 x 64 + 3 x 64 x 128).
  EXPECT_EQ(model->layer_weights(), 2 * (16384 + 24576));
  EXPECT_EQ(model->stored_bytes(), 2.0 * (2 * 40960 + 64000));
}

TEST(ParseModel, NamesTheFieldThatIsWrong) {
  EXPECT_THAT(ParseModel("{}").status().message(), HasSubstr("num_hidden_layers is missing"));
  EXPECT_THAT(ParseModel("[").status().message(), HasSubstr("no JSON object"));
  EXPECT_THAT(ParseModel(R"({"num_hidden_layers": 0.5})").status().message(),
              HasSubstr("num_hidden_layers is 0.5"));
}

TEST(ParseDevice, FillsInWhatIsNotGiven) {
  const absl::StatusOr<DeviceSpec> device = ParseDevice(
      R"({"memory_gib": 24, "memory_gb_per_s": 900, "matmul_tflops": 100, "link_gb_per_s": 20})");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->attention_tflops, 100);
  EXPECT_EQ(device->link_both_gb_per_s, 32);
  EXPECT_EQ(device->step_overhead_us, 0);
}

TEST(ParseDevice, RefusesRatesThatAreNotPositive) {
  EXPECT_THAT(ParseDevice(R"({"memory_gib": 24, "memory_gb_per_s": 0, "matmul_tflops": 1})")
                  .status()
                  .message(),
              HasSubstr("memory_gb_per_s is 0"));
}

}  // namespace
}  // namespace octavo::simulate
