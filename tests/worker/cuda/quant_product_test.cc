#include "worker/cuda/quant_product.h"

#include <cmath>
#include <random>
#include <vector>

#include "common/checkpoint/dequantize.h"
#include "gtest/gtest.h"
#include "tests/emulation/device_array.h"
#include "tests/worker/cuda/bfloat16_testing.h"
#include "tests/worker/cuda/stored_weights_testing.h"
#include "worker/cuda/quant_pack.h"

namespace octavo::cuda {
namespace {

using emulation::DeviceArray;

// A scratch matrix that holds 64 rows of the weight at a time.
TEST(QuantProduct, DequantizesInPiecesForManyRows) {
  constexpr int64_t kIn = 64, kOut = 70, kRows = kMaxQuantRows + 1;
  std::mt19937 random(4);
  const emulation::DeviceStream stream;
  const auto gemm = Gemm::Create();
  ASSERT_TRUE(gemm.ok()) << gemm.status();
  const auto product = QuantProduct::Create(**gemm, 132, stream, 64 * kIn * 2);
  ASSERT_TRUE(product.ok()) << product.status();
  const std::vector<std::byte> stored = RandomStored(DType::kQ8_0, kOut, kIn, random);
  const std::vector<WeightView> parts = {{"w", DType::kQ8_0, kOut, kIn, stored.data()}};
  const QuantFormat format = *QuantFormatOf(parts);
  std::vector<std::byte> packed(static_cast<size_t>(QuantBytes(format, kOut, kIn)));
  PackQuantUnits(parts, format, 0, QuantUnits(kOut, kIn), packed.data());
  const std::vector<uint16_t> x = RandomBFloat16(kRows * kIn, random);
  const DeviceArray<std::byte> weight(packed);
  const DeviceArray<uint16_t> device_x(x);
  std::vector<float> bias(kOut);
  for (size_t o = 0; o < bias.size(); ++o) bias[o] = static_cast<float>(o);
  const DeviceArray<float> device_bias(bias), out(size_t{kRows * kOut});
  GemmArgs args;
  args.x = device_x.data();
  args.x_stride = args.weight_stride = args.in_features = kIn;
  args.bias = device_bias.data();
  args.out = out.data();
  args.out_stride = args.out_features = kOut;
  args.rows = kRows;
  const absl::Status status = (*product)->Run(args, weight.data(), format, stream);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(stream.Synchronize(), "");
  const std::vector<float> y = out.Get();
  std::vector<float> row(kIn);
  for (int64_t o = 0; o < kOut; ++o) {
    ASSERT_TRUE(DequantizeRow(DType::kQ8_0, stored.data() + o * StorageBytes(DType::kQ8_0, kIn),
                              kIn, row.data())
                    .ok());
    for (int64_t r = 0; r < kRows; ++r) {
      double sum = bias[static_cast<size_t>(o)], magnitude = sum;
      for (int64_t k = 0; k < kIn; ++k) {
        const double term = double{FromBFloat16(x[static_cast<size_t>(r * kIn + k)])} *
                            double{row[static_cast<size_t>(k)]};
        sum += term;
        magnitude += std::abs(term);
      }
      // Weights are rounded to bf16.
      ASSERT_NEAR(y[static_cast<size_t>(r * kOut + o)], sum, magnitude * 0x1p-8) << r << "," << o;
    }
  }
}

}  // namespace
}  // namespace octavo::cuda
