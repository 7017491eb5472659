// Kernels that go over rows, and block copies: all bound by memory. Where a batch's rows fit the
// second-level cache, as they do in a real step, a share above 1 is no error.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "tests/bench/cuda/bench.h"
#include "tests/bench/cuda/device_data.h"
#include "worker/cuda/kernels/block_copy.h"
#include "worker/cuda/kernels/embedding.h"
#include "worker/cuda/kernels/gate.h"
#include "worker/cuda/kernels/norm.h"
#include "worker/cuda/kernels/sampling.h"
#include "worker/cuda/row_sampling.h"

namespace octavo::bench {
namespace {

constexpr int kMostTurns = 16;

// Measures one row; `launch` gets the turn whose data it must use.
absl::Status AddRow(Bench& bench, const char* group, const std::string& name, double bytes,
                    int turns, absl::FunctionRef<absl::Status(int turn)> launch) {
  Row row;
  row.group = group;
  row.name = name;
  row.bound = Bound::kMemory;
  row.work = {bytes, 0};
  row.bound_seconds = bench.report.ceilings().Seconds(row.bound, row.work);
  OCTAVO_ASSIGN_OR_RETURN(row.time, bench.Time([&](int call) { return launch(call % turns); }));
  bench.report.Add(row);
  return absl::OkStatus();
}

int TurnsFor(const Bench& bench, double bytes) {
  return static_cast<int>(
      std::clamp(static_cast<double>(bench.sizes.rotated_bytes) / bytes, 1.0, double{kMostTurns}));
}

std::string Named(const char* what, int32_t rows) {
  return absl::StrCat(what, ", ", rows, " rows");
}

// 4 bytes read and 2 written per element, of fp8 1; the second pass over the row reads a cache.
absl::Status Norm(Bench& bench, int32_t rows, DType type) {
  const int32_t cols = bench.sizes.model.hidden;
  const int64_t count = int64_t{rows} * cols;
  const bool fp8 = type == DType::kF8E4M3;
  const double bytes = (fp8 ? 5.0 : 6.0) * static_cast<double>(count);
  const int turns = TurnsFor(bench, bytes);
  OCTAVO_ASSIGN_OR_RETURN(const Buffer x, RandomFloats(bench.backend, turns * count));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer weight, RandomFloats(bench.backend, cols));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer out, RandomBFloat16(bench.backend, turns * count));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer scales, RandomFloats(bench.backend, rows));
  cuda::RmsNormArgs args;
  args.type = type;
  args.out_scales = scales.as<float>();
  args.x_stride = args.out_stride = cols;
  args.weight = weight.as<float>();
  args.eps = 1e-5f;
  args.rows = rows;
  args.cols = cols;
  return AddRow(bench, "norm", Named(fp8 ? "RMSNorm to fp8" : "RMSNorm", rows), bytes, turns,
                [&](int turn) {
                  args.x = x.as<float>() + turn * count;
                  args.out = out.as<uint16_t>() + turn * count;
                  return cuda::LaunchRmsNorm(args, bench.stream());
                });
}

// x and out are read, out is written.
absl::Status AddNormed(Bench& bench, int32_t rows) {
  const int32_t cols = bench.sizes.model.hidden;
  const int64_t count = int64_t{rows} * cols;
  const double bytes = 12.0 * static_cast<double>(count);
  const int turns = TurnsFor(bench, bytes);
  OCTAVO_ASSIGN_OR_RETURN(const Buffer x, RandomFloats(bench.backend, turns * count));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer weight, RandomFloats(bench.backend, cols));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer out, RandomFloats(bench.backend, turns * count));
  cuda::AddNormedArgs args;
  args.x_stride = args.out_stride = cols;
  args.weight = weight.as<float>();
  args.eps = 1e-5f;
  args.rows = rows;
  args.cols = cols;
  return AddRow(bench, "norm", Named("add normed", rows), bytes, turns, [&](int turn) {
    args.x = x.as<float>() + turn * count;
    args.out = out.as<float>() + turn * count;
    return cuda::LaunchAddNormed(args, bench.stream());
  });
}

// Gate and up are read as fp32; their product is written, as fp32 or as fp8, for which a block has
// a whole row and its second pass over that reads a cache.
absl::Status Gate(Bench& bench, int32_t rows, bool fp8) {
  const int32_t cols = bench.sizes.model.ffn;
  const int64_t count = int64_t{rows} * cols;
  const double bytes = (fp8 ? 9.0 : 12.0) * static_cast<double>(count);
  const int turns = TurnsFor(bench, bytes);
  OCTAVO_ASSIGN_OR_RETURN(const Buffer scales, RandomFloats(bench.backend, rows));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer gate_up, RandomFloats(bench.backend, 2 * turns * count));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer out,
                          bench.backend.Allocate(static_cast<size_t>(turns * count) * 4));
  cuda::GateArgs args;
  args.gate_up_stride = 2 * int64_t{cols};
  args.out_stride = args.rounded_stride = cols;
  if (fp8) args.type = DType::kF8E4M3;
  args.rounded_scales = scales.as<float>();
  args.rows = rows;
  args.cols = cols;
  return AddRow(bench, "gate", Named(fp8 ? "SiLU gate to fp8" : "SiLU gate", rows), bytes, turns,
                [&](int turn) {
                  args.gate_up = gate_up.as<float>() + 2 * turn * count;
                  float* const to = out.as<float>() + turn * count;
                  args.out = fp8 ? nullptr : to;
                  args.rounded = fp8 ? to : nullptr;
                  return cuda::LaunchGate(args, bench.stream());
                });
}

// 2 bytes of the table read and 4 written per element; rows of the table at random.
absl::Status Embedding(Bench& bench, int32_t rows) {
  const int32_t cols = bench.sizes.model.hidden, vocabulary = bench.sizes.model.vocab;
  OCTAVO_ASSIGN_OR_RETURN(const Buffer table,
                          RandomBFloat16(bench.backend, int64_t{vocabulary} * cols));
  std::vector<int32_t> ids(static_cast<size_t>(kMostTurns * rows));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>(i * 2654435761u % static_cast<uint32_t>(vocabulary));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer device_ids, ToDevice(bench.backend, ids));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer out,
                          bench.backend.Allocate(static_cast<size_t>(rows) * cols * 4));
  cuda::EmbeddingArgs args;
  args.table = table.as<uint16_t>();
  args.table_stride = args.out_stride = args.cols = cols;
  args.table_rows = args.vocabulary = vocabulary;
  args.out = out.as<float>();
  args.rows = rows;
  return AddRow(bench, "embed", Named("embedding", rows), 6.0 * rows * cols, kMostTurns,
                [&](int turn) {
                  args.token_ids = device_ids.as<int32_t>() + turn * rows;
                  return cuda::LaunchEmbedding(args, bench.stream());
                });
}

// q is read and written as fp32, k and v are read as fp32 and written as the cache's bf16.
absl::Status Rope(Bench& bench, int32_t rows) {
  const ModelShape& model = bench.sizes.model;
  constexpr int32_t kLayers = 4, kPositions = 128;
  const int32_t block_size = bench.sizes.block_size;
  OCTAVO_ASSIGN_OR_RETURN(const CacheGeometry geometry,
                          CacheGeometry::Create({kLayers, model.kv_heads, model.head_dim, {}},
                                                DType::kBF16, block_size));
  const int64_t blocks = (rows + block_size - 1) / block_size + 1;
  OCTAVO_ASSIGN_OR_RETURN(const Buffer pool,
                          bench.backend.Allocate(static_cast<size_t>(geometry.PoolBytes(blocks))));
  const int64_t q_cols = int64_t{model.heads} * model.head_dim;
  const int64_t kv_cols = int64_t{model.kv_heads} * model.head_dim;
  const int64_t cols = q_cols + 2 * kv_cols;
  OCTAVO_ASSIGN_OR_RETURN(const Buffer qkv, RandomFloats(bench.backend, rows * cols));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer table,
                          RandomFloats(bench.backend, int64_t{kPositions} * model.head_dim));
  std::vector<int32_t> positions(static_cast<size_t>(rows));
  std::vector<int64_t> slots(static_cast<size_t>(rows));
  for (int32_t r = 0; r < rows; ++r) {
    positions[static_cast<size_t>(r)] = r % kPositions;
    slots[static_cast<size_t>(r)] = block_size + r;  // block 0 is padding
  }
  OCTAVO_ASSIGN_OR_RETURN(const Buffer device_positions, ToDevice(bench.backend, positions));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer device_slots, ToDevice(bench.backend, slots));
  StepBatch batch;
  batch.num_rows = rows;
  batch.positions = device_positions.as<int32_t>();
  batch.slots = device_slots.as<int64_t>();
  RopeAndWriteKvParams params;
  params.qkv = {qkv.as<float>(), rows, cols, cols};
  params.num_heads = model.heads;
  params.num_kv_heads = model.kv_heads;
  params.head_dim = model.head_dim;
  params.rope = {table.as<float>(), model.head_dim, kPositions, false};
  params.batch = &batch;
  params.pool = {pool.data(), geometry};
  const double bytes =
      rows * (8.0 * static_cast<double>(q_cols) + 12.0 * static_cast<double>(kv_cols));
  return AddRow(bench, "rope", Named("RoPE + KV write", rows), bytes, kLayers, [&](int turn) {
    params.layer = turn;
    return bench.backend.RopeAndWriteKv(params);
  });
}

// Every logit is read at least once.
absl::Status Sampling(Bench& bench, int32_t rows, bool filtered) {
  const int32_t vocabulary = bench.sizes.model.vocab;
  SampleRow row;
  row.sampling.temperature = filtered ? 0.8f : 0.0f;
  if (filtered) {
    row.sampling.top_p = 0.9f;
    row.sampling.top_k = 50;
  }
  const std::vector<cuda::SamplingRowArgs> row_args(static_cast<size_t>(rows),
                                                    cuda::RowArgsOf(row));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer logits,
                          RandomFloats(bench.backend, int64_t{rows} * vocabulary));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer device_args, ToDevice(bench.backend, row_args));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer sampled,
                          bench.backend.Allocate(cuda::SampledBytes(rows, 0)));
  cuda::SamplingArgs args;
  args.logits = logits.as<float>();
  args.stride = args.vocabulary = vocabulary;
  args.rows = rows;
  args.row_args = device_args.as<cuda::SamplingRowArgs>();
  args.sampled = sampled.data();
  return AddRow(bench, "sample", Named(filtered ? "top-k 50, top-p 0.9" : "greedy", rows),
                4.0 * rows * vocabulary, 1,
                [&](int) { return cuda::LaunchSampling(args, bench.stream()); });
}

// Whole blocks of all layers, read and written.
absl::Status BlockCopies(Bench& bench, int32_t count) {
  const ModelShape& model = bench.sizes.model;
  OCTAVO_ASSIGN_OR_RETURN(const CacheGeometry geometry,
                          CacheGeometry::Create({model.layers, model.kv_heads, model.head_dim, {}},
                                                DType::kBF16, bench.sizes.block_size));
  const auto bytes = static_cast<size_t>(geometry.PoolBytes(2 * int64_t{count} + 1));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer pool, bench.backend.Allocate(bytes));
  OCTAVO_RETURN_IF_ERROR(FillDevice(bench.backend, pool.data(), bytes, RandomBlock(geometry)));
  std::vector<BlockCopy> copies;
  for (int32_t i = 0; i < count; ++i) copies.push_back({1 + 2 * i, 2 + 2 * i});
  OCTAVO_ASSIGN_OR_RETURN(const Buffer device_copies, ToDevice(bench.backend, copies));
  cuda::BlockCopyArgs args;
  args.pool = pool.data();
  args.block_bytes = geometry.bytes_per_block();
  args.copies = device_copies.as<BlockCopy>();
  args.count = count;
  return AddRow(bench, "copy", absl::StrCat("copy on write, ", count, " blocks"),
                2.0 * count * static_cast<double>(geometry.bytes_per_block()), 1,
                [&](int) { return cuda::LaunchBlockCopy(args, bench.stream()); });
}

}  // namespace

absl::Status MeasureRowKernels(Bench& bench) {
  for (const int32_t rows : bench.sizes.rows) {
    for (const DType type : {DType::kBF16, DType::kF8E4M3})
      OCTAVO_RETURN_IF_ERROR(Norm(bench, rows, type));
    OCTAVO_RETURN_IF_ERROR(AddNormed(bench, rows));
    for (const bool fp8 : {false, true}) OCTAVO_RETURN_IF_ERROR(Gate(bench, rows, fp8));
    OCTAVO_RETURN_IF_ERROR(Rope(bench, rows));
    OCTAVO_RETURN_IF_ERROR(Embedding(bench, rows));
  }
  for (const int32_t rows : bench.sizes.batches)
    for (const bool filtered : {false, true})
      OCTAVO_RETURN_IF_ERROR(Sampling(bench, rows, filtered));
  for (const int32_t count : bench.sizes.copied_blocks)
    OCTAVO_RETURN_IF_ERROR(BlockCopies(bench, count));
  return absl::OkStatus();
}

}  // namespace octavo::bench
