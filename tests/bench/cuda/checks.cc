// A few shapes against sums in double, so that what is timed is known to be right; the kernels' own
// tests (octavo_cuda_device_test) have the edges.
#include <cmath>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/bench/cuda/bench.h"
#include "tests/bench/cuda/device_data.h"
#include "tests/worker/cuda/kernels/attention_testing.h"
#include "worker/cuda/gemm.h"
#include "worker/cuda/packed_weights.h"

namespace octavo::bench {
namespace {

absl::Status CheckAttention(Bench& bench, DType dtype, const char* what,
                            const std::vector<cuda::SequenceChunk>& chunks) {
  PagedShape shape;
  shape.num_heads = 4;
  shape.num_kv_heads = 1;
  shape.head_dim = 128;
  shape.dtype = dtype;
  shape.block_size = bench.sizes.block_size;
  cuda::AttentionUnderTest test(shape, chunks);
  OCTAVO_ASSIGN_OR_RETURN(const std::vector<float> out, test.TryRun({5, 0}));
  bench.report.Check(absl::StrCat(what, " ", std::string(Info(dtype).name)), test.WorstError(out),
                     cuda::Tolerance(dtype));
  return absl::OkStatus();
}

// The largest error of a sum, in units of its terms' magnitudes.
absl::Status CheckProduct(Bench& bench, int64_t rows, int64_t in, int64_t out_features) {
  std::mt19937_64 random(4);
  std::normal_distribution<float> normal;
  const auto bf16 = [&](int64_t count) {
    std::vector<uint16_t> values(static_cast<size_t>(count));
    for (uint16_t& value : values) {
      const float x = normal(random);
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      value = static_cast<uint16_t>(bits >> 16);
    }
    return values;
  };
  const auto wide = [](uint16_t half) {
    const uint32_t bits = uint32_t{half} << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return double{x};
  };
  const std::vector<uint16_t> x = bf16(rows * in), weight = bf16(out_features * in);
  OCTAVO_ASSIGN_OR_RETURN(const Buffer device_x, ToDevice(bench.backend, x));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer device_weight, ToDevice(bench.backend, weight));
  std::vector<float> got(static_cast<size_t>(rows * out_features));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer out, bench.backend.Allocate(got.size() * sizeof(float)));
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::Gemm> gemm, cuda::Gemm::Create());
  cuda::GemmArgs args;
  args.x = device_x.as<uint16_t>();
  args.weight = device_weight.as<uint16_t>();
  args.x_stride = args.weight_stride = args.in_features = in;
  args.out = out.as<float>();
  args.out_stride = args.out_features = out_features;
  args.rows = rows;
  OCTAVO_RETURN_IF_ERROR(gemm->Run(args, bench.stream()));
  OCTAVO_RETURN_IF_ERROR(
      bench.backend.CopyToHost(got.data(), out.data(), got.size() * sizeof(float)));
  double worst = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < out_features; ++o) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < in; ++k) {
        const double term = wide(x[static_cast<size_t>(r * in + k)]) *
                            wide(weight[static_cast<size_t>(o * in + k)]);
        sum += term;
        magnitude += std::abs(term);
      }
      const double error =
          std::abs(double{got[static_cast<size_t>(r * out_features + o)]} - sum) / magnitude;
      worst = error <= worst ? worst : error;  // NaN stays
    }
  // fp32 sums of exact products, in whatever order.
  bench.report.Check(absl::StrCat("product ", rows, " x ", in, " x ", out_features), worst,
                     0x1p-23 * 32);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckKernels(Bench& bench) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kI8, DType::kF8E4M3, DType::kF8E5M2})
    OCTAVO_RETURN_IF_ERROR(
        CheckAttention(bench, dtype, "decode 1, 17, 300", {{0, 1}, {16, 1}, {299, 1}}));
  for (const DType dtype : {DType::kBF16, DType::kI8})
    OCTAVO_RETURN_IF_ERROR(CheckAttention(bench, dtype, "prefill 40 on 30", {{30, 40}}));
  OCTAVO_RETURN_IF_ERROR(CheckProduct(bench, 1, 256, 96));
  return CheckProduct(bench, 16, 576, 64);
}

}  // namespace octavo::bench
