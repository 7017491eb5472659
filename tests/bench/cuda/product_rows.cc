// The matrix products of a layer and of the head.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/bench/cuda/bench.h"
#include "tests/bench/cuda/device_data.h"
#include "worker/cuda/gemm.h"
#include "worker/cuda/packed_weights.h"

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

// The weight and x of bf16 are read, fp32 is written; 2 flops for each element of the weight and
// row. Few rows are bound by the weight's bytes, many by flops: on a card with 181 flops for each
// byte it copies from about 181 rows on.
Work WorkOf(const Product& product, int32_t rows) {
  const auto in = static_cast<double>(product.in_features);
  const auto out = static_cast<double>(product.out_features);
  return {2 * in * out + rows * (2 * in + 4 * out), 2 * in * out * rows};
}

absl::Status Measure(Bench& bench, cuda::Gemm& gemm, const Product& product) {
  const int64_t stride = cuda::PaddedCols(product.in_features);
  const int64_t elements = product.out_features * stride;
  // As many weights as no cache holds: a step reads each once.
  const auto turns = static_cast<int>(
      std::clamp(bench.sizes.rotated_bytes / (2 * elements) + 1, int64_t{1}, int64_t{kMostTurns}));
  const int32_t most =
      *std::max_element(bench.sizes.product_rows.begin(), bench.sizes.product_rows.end());
  OCTAVO_ASSIGN_OR_RETURN(const Buffer weights, RandomBFloat16(bench.backend, turns * elements));
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
    row.name = absl::StrCat(product.name, ", ", rows, " rows");
    row.work = WorkOf(product, rows);
    row.bound = bench.report.ceilings().Binding(row.work);
    row.bound_seconds = bench.report.ceilings().Seconds(row.bound, row.work);
    OCTAVO_ASSIGN_OR_RETURN(row.time, bench.Time([&](int call) {
      args.weight = weights.as<uint16_t>() + call % turns * elements;
      return gemm.Run(args, bench.stream());
    }));
    bench.report.Add(row);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureProducts(Bench& bench) {
  OCTAVO_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::Gemm> gemm, cuda::Gemm::Create());
  for (const Product& product : ProductsOf(bench.sizes.model))
    OCTAVO_RETURN_IF_ERROR(Measure(bench, *gemm, product));
  return absl::OkStatus();
}

}  // namespace octavo::bench
