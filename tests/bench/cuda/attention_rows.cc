// Paged attention through the device port, over a pool in which every sequence's blocks are spread.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "tests/bench/cuda/bench.h"
#include "tests/bench/cuda/device_data.h"

namespace octavo::bench {
namespace {

// Of what is free, for the pool; the rest is for queries and results.
constexpr double kPoolShare = 0.7;

int64_t BlocksOf(const AttentionCase& work, int32_t block_size) {
  int64_t blocks = work.shared_tokens / block_size;
  for (const Chunk& chunk : work.chunks)
    blocks += (chunk.context + chunk.rows + block_size - 1) / block_size -
              work.shared_tokens / block_size;
  return blocks;
}

// The pool of a variant, as large as its largest case that fits.
struct Pool {
  CacheGeometry geometry;
  Buffer memory;
  std::vector<BlockId> order;  // all lendable blocks, shuffled
};

absl::StatusOr<Pool> MakePool(Bench& bench, const AttentionVariant& variant) {
  OCTAVO_ASSIGN_OR_RETURN(const DeviceMemory memory, bench.backend.Memory());
  const auto budget = static_cast<int64_t>(kPoolShare * static_cast<double>(memory.free_bytes));
  int64_t most = 0;
  for (const AttentionCase& work : variant.cases)
    most = std::max(most, BlocksOf(work, bench.sizes.block_size));
  Pool pool;
  int32_t layers = bench.sizes.attention_layers;
  while (true) {
    OCTAVO_ASSIGN_OR_RETURN(
        pool.geometry, CacheGeometry::Create({layers, variant.num_kv_heads, variant.head_dim, {}},
                                             variant.dtype, bench.sizes.block_size));
    if (pool.geometry.PoolBytes(most + 1) <= budget || layers <= bench.sizes.min_attention_layers)
      break;
    layers /= 2;
  }
  const int64_t blocks = std::min(most, pool.geometry.LendableBlocks(budget));
  const auto bytes = static_cast<size_t>(pool.geometry.PoolBytes(blocks + 1));
  OCTAVO_ASSIGN_OR_RETURN(pool.memory, bench.backend.Allocate(bytes));
  OCTAVO_RETURN_IF_ERROR(
      FillDevice(bench.backend, pool.memory.data(), bytes, RandomBlock(pool.geometry)));
  pool.order.resize(static_cast<size_t>(blocks));
  std::iota(pool.order.begin(), pool.order.end(), 1);
  std::shuffle(pool.order.begin(), pool.order.end(), std::mt19937_64(1));
  return pool;
}

// The batch of a case: sequences and where their blocks are.
absl::StatusOr<std::vector<BlockId>> MakeTables(const AttentionCase& work, const Pool& pool,
                                                StepBatch* batch) {
  const int32_t block_size = pool.geometry.block_size();
  const int64_t needed = BlocksOf(work, block_size);
  if (needed > static_cast<int64_t>(pool.order.size()))
    return absl::ResourceExhaustedError(absl::StrCat(needed, " blocks of ",
                                                     pool.geometry.bytes_per_block(),
                                                     " bytes; the pool has ", pool.order.size()));
  const int32_t shared = work.shared_tokens / block_size;
  auto next = pool.order.begin() + shared;
  std::vector<BlockId> tables;
  for (const Chunk& chunk : work.chunks) {
    SequenceRows rows = {batch->num_rows, chunk.rows, chunk.context,
                         static_cast<int32_t>(tables.size()), 0};
    rows.table_length = (chunk.context + chunk.rows + block_size - 1) / block_size;
    tables.insert(tables.end(), pool.order.begin(), pool.order.begin() + shared);
    tables.insert(tables.end(), next, next + (rows.table_length - shared));
    next += rows.table_length - shared;
    batch->num_rows += chunk.rows;
    batch->sequences.push_back(rows);
  }
  batch->num_table_entries = static_cast<int64_t>(tables.size());
  return tables;
}

// Decodes must read their tokens' keys and values, shared ones once; chunks must multiply their
// unmasked pairs of a query and a key, 4 flops per element of a head. All read q and write out, of
// fp32.
struct AttentionWork {
  Work decode, prefill;
};
AttentionWork WorkOf(const AttentionCase& work, const AttentionVariant& variant,
                     const CacheGeometry& geometry) {
  const double token_bytes =
      static_cast<double>(geometry.bytes_per_layer_block()) / geometry.block_size();
  const double cols = double{1} * variant.num_heads * variant.head_dim;
  AttentionWork total;
  total.decode.bytes = work.shared_tokens * token_bytes;
  for (const Chunk& chunk : work.chunks) {
    const double length = double{1} * chunk.context + chunk.rows;
    if (chunk.rows == 1) {
      total.decode.bytes += (length - work.shared_tokens) * token_bytes + 8 * cols;
      total.decode.flops += 4 * cols * length;
    } else {
      const double pairs = chunk.rows * (chunk.context + 0.5 * (chunk.rows + 1.0));
      total.prefill.flops += 4 * cols * pairs;
      total.prefill.bytes += length * token_bytes + 8 * cols * chunk.rows;
    }
  }
  return total;
}

absl::Status CheckFinite(Bench& bench, const Matrix& out) {
  std::vector<float> row(static_cast<size_t>(out.cols));
  for (const int64_t r : {int64_t{0}, out.rows - 1}) {
    OCTAVO_RETURN_IF_ERROR(
        bench.backend.CopyToHost(row.data(), out.row(r), row.size() * sizeof(float)));
    if (!std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); }))
      return absl::InternalError(absl::StrCat("row ", r, " of attention is not finite"));
  }
  return absl::OkStatus();
}

absl::Status MeasureCase(Bench& bench, const AttentionVariant& variant, const AttentionCase& work,
                         const Pool& pool, Row* row) {
  StepBatch batch;
  OCTAVO_ASSIGN_OR_RETURN(const std::vector<BlockId> tables, MakeTables(work, pool, &batch));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer device_tables, ToDevice(bench.backend, tables));
  batch.block_tables = device_tables.as<BlockId>();
  batch.host_block_tables = tables.data();
  const int64_t cols = int64_t{variant.num_heads} * variant.head_dim;
  OCTAVO_ASSIGN_OR_RETURN(const Buffer q, RandomFloats(bench.backend, batch.num_rows * cols));
  OCTAVO_ASSIGN_OR_RETURN(const Buffer out, bench.backend.Allocate(q.bytes()));

  LargestStep limits;
  limits.max_rows = batch.num_rows;
  limits.max_sequences = limits.max_sampled = static_cast<int32_t>(work.chunks.size());
  for (const Chunk& chunk : work.chunks)
    limits.max_positions = std::max(limits.max_positions, chunk.context + chunk.rows);
  limits.num_heads = variant.num_heads;
  limits.geometry = pool.geometry;
  OCTAVO_RETURN_IF_ERROR(bench.backend.Reserve(limits));
  const auto start = std::chrono::steady_clock::now();
  OCTAVO_RETURN_IF_ERROR(bench.backend.BeginStep(batch, {}).status());
  const std::chrono::duration<double> planned = std::chrono::steady_clock::now() - start;

  PagedAttentionParams params;
  params.q = {q.as<float>(), batch.num_rows, cols, cols};
  params.out = {out.as<float>(), batch.num_rows, cols, cols};
  params.num_heads = variant.num_heads;
  params.num_kv_heads = variant.num_kv_heads;
  params.head_dim = variant.head_dim;
  params.scale = 1 / std::sqrt(static_cast<float>(variant.head_dim));
  params.batch = &batch;
  params.pool = {pool.memory.data(), pool.geometry};
  OCTAVO_ASSIGN_OR_RETURN(row->time, bench.Time([&](int call) {
    params.layer = call % pool.geometry.shape().num_layers;
    return bench.backend.PagedAttention(params);
  }));
  OCTAVO_RETURN_IF_ERROR(CheckFinite(bench, params.out));

  const Ceilings& ceilings = bench.report.ceilings();
  const AttentionWork total = WorkOf(work, variant, pool.geometry);
  const double decode = ceilings.Seconds(Bound::kMemory, total.decode);
  const double prefill = ceilings.Seconds(Bound::kProducts, total.prefill);
  row->bound = prefill > decode ? Bound::kProducts : Bound::kMemory;
  row->bound_seconds = decode + prefill;
  row->work = row->bound == Bound::kProducts ? total.prefill : total.decode;
  row->note = absl::StrFormat("%d layers, work list %.0f us%s", pool.geometry.shape().num_layers,
                              planned.count() * 1e6,
                              decode > 0 && prefill > 0 ? ", share of the sum of both bounds" : "");
  row->more = {{"work_list_us", planned.count() * 1e6},
               {"layers", pool.geometry.shape().num_layers}};
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureAttention(Bench& bench) {
  for (const AttentionVariant& variant : bench.sizes.attention) {
    OCTAVO_ASSIGN_OR_RETURN(const Pool pool, MakePool(bench, variant));
    for (const AttentionCase& work : variant.cases) {
      Row row;
      row.group = "attention";
      row.name = absl::StrCat(work.name, ", ", variant.name);
      const absl::Status measured = MeasureCase(bench, variant, work, pool, &row);
      if (measured.ok())
        bench.report.Add(row);
      else if (absl::IsResourceExhausted(measured))
        bench.report.Skip(row.group, row.name, measured);
      else
        return measured;
    }
  }
  return absl::OkStatus();
}

}  // namespace octavo::bench
