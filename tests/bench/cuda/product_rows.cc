// The matrix products of a layer and of the head: of bf16, fp16 and fp8, and of weights of 4 and 8
// bits.
#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/bench/cuda/bench.h"
#include "tests/bench/cuda/device_data.h"
#include "worker/cuda/cuda_status.h"
#include "worker/cuda/fp8_product.h"
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

// What a weight and the x beside it are.
struct Operands {
  std::string name;
  int64_t weight_bytes = 0;
  DType type = DType::kBF16;  // of x
  std::string note;
};

// The weight and x are read, fp32 is written; 2 flops for each element of the weight and row. Few
// rows are bound by the weight's bytes, many by flops: on a card with 181 flops for each byte it
// copies from about 181 rows on.
Work WorkOf(const Product& product, const Operands& operands, int32_t rows) {
  const auto in = static_cast<double>(product.in_features);
  const auto out = static_cast<double>(product.out_features);
  const auto x_bytes = static_cast<double>(StorageBytes(operands.type, product.in_features));
  return {static_cast<double>(operands.weight_bytes) + rows * (x_bytes + 4 * out),
          2 * in * out * rows};
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

absl::StatusOr<Buffer> RandomOf(Bench& bench, DType type, int64_t count) {
  switch (type) {
    case DType::kF16:
      return RandomFp16(bench.backend, count);
    case DType::kF8E4M3:
      return RandomE4m3(bench.backend, count);
    default:
      return RandomBFloat16(bench.backend, count);
  }
}

// 10 major + minor.
absl::StatusOr<int32_t> Capability(int device) {
  int major = 0, minor = 0;
  OCTAVO_RETURN_IF_ERROR(
      cuda::ToStatus(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                     "cudaDeviceGetAttribute"));
  OCTAVO_RETURN_IF_ERROR(
      cuda::ToStatus(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                     "cudaDeviceGetAttribute"));
  return 10 * major + minor;
}

// `run` is called with the turn whose weight it must use.
absl::Status Measure(Bench& bench, const Product& product, const Operands& operands,
                     absl::FunctionRef<absl::Status(const cuda::GemmArgs& args, int turn)> run) {
  const int64_t stride = cuda::PaddedCols(product.in_features);
  const int turns = TurnsFor(bench, operands.weight_bytes);
  const int32_t most =
      *std::max_element(bench.sizes.product_rows.begin(), bench.sizes.product_rows.end());
  OCTAVO_ASSIGN_OR_RETURN(const Buffer x, RandomOf(bench, operands.type, most * stride));
  OCTAVO_ASSIGN_OR_RETURN(
      const Buffer out,
      bench.backend.Allocate(static_cast<size_t>(most * product.out_features) * sizeof(float)));
  for (const int32_t rows : bench.sizes.product_rows) {
    cuda::GemmArgs args;
    args.type = operands.type;
    args.x = x.data();
    args.x_stride = args.weight_stride = stride;
    args.out = out.as<float>();
    args.out_stride = product.out_features;
    args.rows = rows;
    args.in_features = product.in_features;
    args.out_features = product.out_features;
    Row row;
    row.group = "product";
    row.name = absl::StrCat(product.name, ", ", operands.name, ", ", rows, " rows");
    row.note = operands.note;
    row.work = WorkOf(product, operands, rows);
    row.bound = bench.report.ceilings().Binding(row.work);
    row.bound_seconds = bench.report.ceilings().Seconds(row.bound, row.work);
    OCTAVO_ASSIGN_OR_RETURN(row.time,
                            bench.Time([&](int call) { return run(args, call % turns); }));
    bench.report.Add(row);
  }
  return absl::OkStatus();
}

absl::Status MeasureHalves(Bench& bench, cuda::Gemm& gemm, const Product& product, DType type) {
  const int64_t elements = product.out_features * cuda::PaddedCols(product.in_features);
  const int turns = TurnsFor(bench, 2 * elements);
  OCTAVO_ASSIGN_OR_RETURN(const Buffer weights, RandomOf(bench, type, turns * elements));
  return Measure(bench, product, {std::string(Info(type).name), 2 * elements, type, ""},
                 [&](cuda::GemmArgs args, int turn) {
                   args.weight = weights.as<uint16_t>() + turn * elements;
                   return gemm.Run(args, bench.stream());
                 });
}

// With scales of rows, as a step multiplies: where the card takes none, the kernel that scales is
// part of what is timed.
absl::Status MeasureE4m3(Bench& bench, cuda::Fp8Product& fp8, const Product& product) {
  const int64_t elements = product.out_features * product.in_features;
  const int turns = TurnsFor(bench, elements);
  const int32_t most =
      *std::max_element(bench.sizes.product_rows.begin(), bench.sizes.product_rows.end());
  OCTAVO_ASSIGN_OR_RETURN(const Buffer weights, RandomOf(bench, DType::kF8E4M3, turns * elements));
  OCTAVO_ASSIGN_OR_RETURN(
      const Buffer scales,
      RandomFloats(bench.backend, std::max<int64_t>(most, product.out_features)));
  return Measure(bench, product,
                 {"fp8", elements, DType::kF8E4M3, "flops against the rate of bf16"},
                 [&](cuda::GemmArgs args, int turn) {
                   args.weight = weights.data() + turn * elements;
                   args.x_scales = args.weight_scales = scales.as<float>();
                   return fp8.Run(args, bench.stream());
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
  return Measure(bench, product, {absl::StrCat(format.bits, " bits"), bytes, DType::kBF16, ""},
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
  OCTAVO_ASSIGN_OR_RETURN(const int32_t capability, Capability(device));
  cuda::Fp8Product fp8(*gemm, capability);
  const bool has_fp8 = capability >= cuda::Fp8Product::kLeastCapability;
  if (!has_fp8)
    bench.report.Skip("product", "fp8",
                      absl::FailedPreconditionError(
                          absl::StrCat("compute capability ", capability, " of 10; fp8 needs ",
                                       cuda::Fp8Product::kLeastCapability)));
  for (const Product& product : ProductsOf(bench.sizes.model)) {
    for (const DType type : {DType::kBF16, DType::kF16})
      OCTAVO_RETURN_IF_ERROR(MeasureHalves(bench, *gemm, product, type));
    if (has_fp8 && cuda::FitsFp8(product.out_features, product.in_features))
      OCTAVO_RETURN_IF_ERROR(MeasureE4m3(bench, fp8, product));
    for (const int32_t bits : {4, 8})
      OCTAVO_RETURN_IF_ERROR(MeasureQuantized(bench, *quantized, product, {bits, false}));
  }
  return absl::OkStatus();
}

}  // namespace octavo::bench
