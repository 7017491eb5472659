#include "common/model_shape.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

TEST(ModelShape, HasTheWeightsThatTheModelsAreNamedFor) {
  const auto weights = [](const ModelShape& shape) {
    const double attention = 2.0 * shape.hidden * shape.head_dim * (shape.heads + shape.kv_heads);
    const double mlp = (shape.gated_ffn ? 3.0 : 2.0) * shape.hidden * shape.ffn;
    const double embeddings = (shape.tied_embeddings ? 1.0 : 2.0) * shape.vocab * shape.hidden;
    return shape.layers * (attention + mlp) + embeddings;
  };
  EXPECT_NEAR(weights(*FindModelShape("llama-3-8b")), 8.03e9, 0.005e9);
  EXPECT_NEAR(weights(*FindModelShape("llama-3-70b")), 70.55e9, 0.01e9);
  EXPECT_NEAR(weights(*FindModelShape("opt-13b")), 12.84e9, 0.01e9);
  EXPECT_NEAR(weights(*FindModelShape("smollm2-135m")), 134.5e6, 0.1e6);
}

TEST(ModelShape, UnknownNamesListTheKnown) {
  const absl::Status status = FindModelShape("gpt-5").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  for (const std::string& name : ModelShapeNames())
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
}

}  // namespace
}  // namespace octavo
