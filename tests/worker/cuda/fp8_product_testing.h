// A product of e4m3 against sums in double.
#ifndef OCTAVO_TESTS_WORKER_CUDA_FP8_PRODUCT_TESTING_H_
#define OCTAVO_TESTS_WORKER_CUDA_FP8_PRODUCT_TESTING_H_

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/emulation/device_array.h"
#include "tests/worker/cuda/e4m3_testing.h"
#include "worker/cuda/fp8_product.h"

namespace octavo::cuda {

// Sums of K exact products of e4m3 in fp32, scaled: K ulps of the sum of magnitudes. Tensor cores
// of sm_90 add products of e4m3 in fewer bits than fp32 has before they pass sums on, which a card
// has to show to stay in that: the emulation adds in fp32.
inline void ExpectMatchesDoubles(Fp8Product& product, int64_t rows, int64_t in,
                                 int64_t out_features, bool add, bool bias) {
  SCOPED_TRACE(::testing::Message() << rows << " x " << in << " x " << out_features << add << bias);
  std::mt19937 random(11);
  const int64_t out_stride = out_features + 4;
  const auto x = RandomE4m3(static_cast<size_t>(rows * in), random);
  const auto weight = RandomE4m3(static_cast<size_t>(out_features * in), random);
  std::uniform_real_distribution<float> scale(1e-4f, 1e-2f);
  std::normal_distribution<float> normal(0, 10);
  std::vector<float> x_scales(static_cast<size_t>(rows)),
      weight_scales(static_cast<size_t>(out_features)), biases(static_cast<size_t>(out_features)),
      before(static_cast<size_t>(rows * out_stride));
  for (float& value : x_scales) value = scale(random);
  for (float& value : weight_scales) value = scale(random);
  for (float& value : biases) value = normal(random);
  for (float& value : before) value = normal(random);
  const emulation::DeviceArray<uint8_t> device_x(x), device_weight(weight);
  const emulation::DeviceArray<float> device_x_scales(x_scales),
      device_weight_scales(weight_scales), device_bias(biases), out(before);
  GemmArgs args;
  args.type = DType::kF8E4M3;
  args.x = device_x.data();
  args.weight = device_weight.data();
  args.x_stride = args.weight_stride = args.in_features = in;
  args.x_scales = device_x_scales.data();
  args.weight_scales = device_weight_scales.data();
  args.bias = bias ? device_bias.data() : nullptr;
  args.out = out.data();
  args.out_stride = out_stride;
  args.rows = rows;
  args.out_features = out_features;
  args.add = add;
  const emulation::DeviceStream stream;
  const absl::Status status = product.Run(args, stream);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(stream.Synchronize(), "");
  const std::vector<float> y = out.Get();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < out_stride; ++o) {
      const auto at = static_cast<size_t>(r * out_stride + o);
      if (o >= out_features) {
        ASSERT_EQ(y[at], before[at]) << "between rows";
        continue;
      }
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < in; ++k) {
        const double term = FromE4m3(x[static_cast<size_t>(r * in + k)]) *
                            FromE4m3(weight[static_cast<size_t>(o * in + k)]);
        sum += term;
        magnitude += std::abs(term);
      }
      const double factor =
          double{x_scales[static_cast<size_t>(r)]} * weight_scales[static_cast<size_t>(o)];
      const double other =
          (add ? before[at] : 0.0f) + (bias ? biases[static_cast<size_t>(o)] : 0.0f);
      ASSERT_NEAR(
          y[at], sum * factor + other,
          (magnitude * factor + std::abs(before[at]) + std::abs(biases[static_cast<size_t>(o)])) *
              0x1p-23 * 32)
          << r << ", " << o;
    }
}

}  // namespace octavo::cuda

#endif  // OCTAVO_TESTS_WORKER_CUDA_FP8_PRODUCT_TESTING_H_
