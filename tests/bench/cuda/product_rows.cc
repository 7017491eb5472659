// The matrix products of a layer and of the head: of bf16 weights, and of weights of 4 and 8 bits.
#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/bench/cuda/bench.h"
#include "tests/bench/cuda/device_data.h"
#include "worker/cuda/cuda_status.h"
#include "worker/cuda/gemm.h"
#include "worker/cuda/kernels/quant_layout.h"
#include "worker/cuda/packed_weights.h"
#include "worker/cuda/quant_product.h"

namespace octavo::bench {
namespace {

constexpr int kMostTurns = 8;

struct Product {
  const char* name;
  int64_t in_features;
  int64_t out_features;
};

std::vector<Product> ProductsOf(const ModelShape& model) {
  const int64_t queries = int64_t{model.heads} * model.head_dim;
  const int64_t keys = int64_t{model.kv_heads} * model.head_dim;
  return {{"qkv", model.hidden, queries + 2 * keys},
          {"output", queries, model.hidden},
          {"gate and up", model.hidden, 2 * int64_t{model.ffn}},
          {"down", model.ffn, model.hidden},
          {"head", model.hidden, model.vocab}};
}

// The weight and x, of bf16, are read, fp32 is written; 2 flops for each element of the weight and
// row. Few rows are bound by the weight's bytes, many by flops: on a card with 181 flops for each
// byte it copies from about 181 rows on.
Work WorkOf(const Product& product, int64_t weight_bytes, int32_t rows) {
  const auto in = static_cast<double>(product.in_features);
  const auto out = static_cast<double>(product.out_features);
  return {static_cast<double>(weight_bytes) + rows * (2 * in + 4 * out), 2 * in * out * rows};
}

// As many weights as no cache holds: a step reads each once.
int TurnsFor(const Bench& bench, int64_t weight_bytes) {
  return static_cast<int>(
      std::clamp(bench.sizes.rotated_bytes / weight_bytes + 1, int64_t{1}, int64_t{kMostTurns}));
}

// Sixty-four units with random codes and with scales and minima of about 2^-7.
std::vector<std::byte> RandomUnits(cuda::QuantFormat format) {
  constexpr size_t kUnits = 64;
  std::mt19937 random(5);
  const auto codes = static_cast<size_t>(cuda::QuantCodeBytes(format.bits));
  const auto bytes = static_cast<size_t>(cuda::QuantUnitBytes(format.bits, format.has_min));
  std::vector<std::byte> units(kUnits * bytes);
  for (size_t i = 0; i < units.size(); ++i) {
    const bool high_byte_of_fp16 = i % bytes >= codes && i % 2 == 1;
    units[i] = static_cast<std::byte>(high_byte_of_fp16 ? 0x20 : random() % 256);
  }
  return units;
}

// `run` is called with the turn whose weight it must use.
absl::Status Measure(Bench& bench, const Product& product, const std::string& weights,
                     int64_t weight_bytes,
                     absl::FunctionRef<absl::Status(const cuda::GemmArgs& args, int turn)> run) {
  const int64_t stride = cuda::PaddedCols(product.in_features);
  const int turns = TurnsFor(bench, weight_bytes);
  const int32_t most =
      *std::max_element(bench.sizes.product_rows.begin(), bench.sizes.product_rows.end());
  OCTAVO_ASSIGN_OR_RETURN(const Buffer x, RandomBFloat16(bench.backend, most * stride));
  OCTAVO_ASSIGN_OR_RETURN(
      const Buffer out,
      bench.backend.Allocate(static_cast<size_t>(most * product.out_features) * sizeof(float)));
  for (const int32_t rows : bench.sizes.product_rows) {
    cuda::GemmArgs args;
    args.x = x.as<uint16_t>();
    args.x_stride = args.weight_stride = stride;
    args.out = out.as<float>();
    args.out_stride = product.out_features;
    args.rows = rows;
    args.in_features = product.in_features;
    args.out_features = product.out_features;
    Row row;
    row.group = "product";
    row.name = absl::StrCat(product.name, ", ", weights, ", ", rows, " rows");
    row.work = WorkOf(product, weight_bytes, rows);
    row.bound = bench.report.ceilings().Binding(row.work);
    row.bound_seconds = bench.report.ceilings().Seconds(row.bound, row.work);
    OCTAVO_ASSIGN_OR_RETURN(row.time,
                            bench.Time([&](int call) { return run(args, call % turns); }));
    bench.report.Add(row);
  }
  return absl::OkStatus();
}

absl::Status MeasureBf16(Bench& bench, cuda::Gemm& gemm, const Product& product) {
  const int64_t elements = product.out_features * cuda::PaddedCols(product.in_features);
  const int turns = TurnsFor(bench, 2 * elements);
  OCTAVO_ASSIGN_OR_RETURN(const Buffer weights, RandomBFloat16(bench.backend, turns * elements));
  return Measure(bench, product, "bf16", 2 * elements, [&](cuda::GemmArgs args, int turn) {
    args.weight = weights.as<uint16_t>() + turn * elements;
    return gemm.Run(args, bench.stream());
  });
}

absl::Status MeasureQuantized(Bench& bench, cuda::QuantProduct& quantized, const Product& product,
                              cuda::QuantFormat format) {
  const int64_t bytes = cuda::QuantBytes(format, product.out_features, product.in_features);
  const int turns = TurnsFor(bench, bytes);
  OCTAVO_ASSIGN_OR_RETURN(const Buffer weights,
                          bench.backend.Allocate(static_cast<size_t>(turns * bytes)));
  OCTAVO_RETURN_IF_ERROR(
      FillDevice(bench.backend, weights.data(), weights.bytes(), RandomUnits(format)));
  return Measure(bench, product, absl::StrCat(format.bits, " bits"), bytes,
                 [&](const cuda::GemmArgs& args, int turn) {
                   return quantized.Run(args, weights.data() + turn * bytes, format,
                                        bench.stream());
                 });
}

}  // namespace

absl::Status MeasureProducts(Bench& bench) {
  int device = 0, multiprocessors = 0;
  OCTAVO_RETURN_IF_ERROR(cuda::ToStatus(cudaGetDevice(&device), "cudaGetDevice"));
  OCTAVO_RETURN_IF_ERROR(cuda::ToStatus(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
      "cudaDeviceGetAttribute"));
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::Gemm> gemm, cuda::Gemm::Create());
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::QuantProduct> quantized,
                          cuda::QuantProduct::Create(*gemm, multiprocessors, bench.stream()));
  for (const Product& product : ProductsOf(bench.sizes.model)) {
    OCTAVO_RETURN_IF_ERROR(MeasureBf16(bench, *gemm, product));
    for (const int32_t bits : {4, 8})
      OCTAVO_RETURN_IF_ERROR(MeasureQuantized(bench, *quantized, product, {bits, false}));
  }
  return absl::OkStatus();
}

}  // namespace octavo::bench
