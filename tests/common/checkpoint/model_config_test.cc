#include "common/checkpoint/model_config.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/common/checkpoint/status_testing.h"

namespace octavo {
namespace {

ModelConfig Valid() {
  ModelConfig config;
  config.family = "llama";
  config.num_layers = 2;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 12;
  config.max_positions = 128;
  config.rope.rotary_dim = 8;
  return config;
}

TEST(ValidateModelConfig, TakesAPlainModel) { EXPECT_TRUE(Validate(Valid()).ok()); }

TEST(ValidateModelConfig, NamesFieldValueAndLimit) {
  const auto refuse = [](const std::function<void(ModelConfig&)>& spoil,
                         std::initializer_list<absl::string_view> phrases) {
    ModelConfig config = Valid();
    spoil(config);
    ExpectRefused(Validate(config), absl::StatusCode::kInvalidArgument, phrases);
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  refuse([](auto& c) { c.num_layers = 0; }, {"num_layers is 0", "1 to 1024"});
  refuse([](auto& c) { c.hidden_size = -32; }, {"hidden_size is -32"});
  refuse([](auto& c) { c.vocab_size = 1 << 30; }, {"vocab_size is 1073741824", "2097152"});
  refuse([](auto& c) { c.num_kv_heads = 8; }, {"num_kv_heads is 8", "1 to 4"});
  refuse([](auto& c) { c.num_kv_heads = 3; }, {"num_heads is 4", "multiple of num_kv_heads, 3"});
  refuse([](auto& c) { c.head_dim = 2048; }, {"head_dim is 2048", "1024"});
  refuse([](auto& c) { c.layer_windows.assign(static_cast<size_t>(c.num_layers), -1); },
         {"sliding_window is -1"});
  refuse([nan](auto& c) { c.norm_eps = nan; }, {"norm_eps is nan"});
  refuse([](auto& c) { c.rope.theta = 0; }, {"theta is 0"});
  refuse([](auto& c) { c.rope.rotary_dim = 10; }, {"rotary_dim is 10", "2 to 8"});
  refuse([](auto& c) { c.rope.rotary_dim = 7; }, {"rotary_dim is 7", "even"});
  refuse(
      [](auto& c) {
        c.rope.frequency_factors = {1, 1, 1};
      },
      {"frequency_factors has 3", "rotary_dim / 2 is 4"});
  refuse(
      [nan](auto& c) {
        c.rope.scaling = RopeScaling::kLinear;
        c.rope.factor = nan;
      },
      {"rope factor is nan"});
  refuse([](auto& c) { c.rope.scaling = RopeScaling::kYarn; }, {"original_max_positions is 0"});
}

}  // namespace
}  // namespace octavo
