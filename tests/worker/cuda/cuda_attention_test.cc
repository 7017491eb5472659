// Attention as the backend runs it: lists built from a step's batch, with and without sharing.
#include "worker/cuda/cuda_attention.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/cuda/bfloat16_testing.h"
#include "worker/cuda/cuda_backend.h"

namespace octavo::cuda {
namespace {

constexpr int32_t kHeads = 6, kKvHeads = 2, kDim = 64, kBlockSize = 16, kBlocks = 200;

// A pool of random blocks, and batches over it.
class CudaAttentionTest : public ::testing::Test {
 protected:
  void Open(bool deterministic) {
    auto backend = CudaBackend::Create({.graphs = false, .deterministic = deterministic});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    geometry_ = *CacheGeometry::Create({1, kKvHeads, kDim, {}}, DType::kBF16, kBlockSize);
    ASSERT_TRUE(backend_->Reserve({64, 16, 16, 2048, kHeads, geometry_}).ok());
    std::mt19937 random(3);
    pool_ =
        Upload(RandomBFloat16(static_cast<size_t>(geometry_.PoolBytes(kBlocks + 1)) / 2, random));
  }

  template <typename T>
  Buffer Upload(const std::vector<T>& values) {
    Buffer buffer = *backend_->Allocate(values.size() * sizeof(T));
    EXPECT_TRUE(
        backend_->CopyToDevice(buffer.data(), values.data(), values.size() * sizeof(T)).ok());
    return buffer;
  }

  // Rows that end at `position`; blocks are numbered from `first_block` on, the first `shared` from
  // 1 on.
  struct Sequence {
    int32_t position = 0;
    int32_t rows = 1;
    int32_t first_block = 1;
    int32_t shared = 0;
  };

  // The output of all rows. A row's query depends on its sequence's first block and its position.
  std::vector<float> Run(const std::vector<Sequence>& sequences, bool tables_known) {
    StepBatch batch;
    std::vector<BlockId> tables;
    std::vector<float> q;
    for (const Sequence& sequence : sequences) {
      SequenceRows rows = {batch.num_rows, sequence.rows, sequence.position - sequence.rows + 1};
      rows.table_begin = static_cast<int32_t>(tables.size());
      rows.table_length = sequence.position / kBlockSize + 1;
      for (int32_t i = 0; i < rows.table_length; ++i)
        tables.push_back(1 + i + (i < sequence.shared ? 0 : sequence.first_block));
      batch.sequences.push_back(rows);
      batch.num_rows += sequence.rows;
      std::mt19937 random(static_cast<uint32_t>(sequence.first_block));
      std::normal_distribution<float> normal;
      for (int32_t i = 0; i < sequence.rows * kHeads * kDim; ++i) q.push_back(normal(random));
    }
    const Buffer device_tables = Upload(tables), device_q = Upload(q);
    const Buffer out = Upload(std::vector<float>(q.size(), NAN));
    batch.block_tables = reinterpret_cast<const BlockId*>(device_tables.data());
    batch.num_table_entries = static_cast<int64_t>(tables.size());
    if (tables_known) batch.host_block_tables = tables.data();
    EXPECT_TRUE(backend_->BeginStep(batch, {}).ok());
    PagedAttentionParams params;
    const int64_t cols = kHeads * kDim;
    params.q = {device_q.as<float>(), batch.num_rows, cols, cols};
    params.out = {out.as<float>(), batch.num_rows, cols, cols};
    params.num_heads = kHeads;
    params.num_kv_heads = kKvHeads;
    params.head_dim = kDim;
    params.scale = 0.125f;
    params.batch = &batch;
    params.pool = {pool_.data(), geometry_};
    const absl::Status status = backend_->PagedAttention(params);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(backend_->EndStep().ok());
    std::vector<float> values(q.size());
    EXPECT_TRUE(
        backend_->CopyToHost(values.data(), out.data(), values.size() * sizeof(float)).ok());
    return values;
  }

  std::unique_ptr<CudaBackend> backend_;
  CacheGeometry geometry_;
  Buffer pool_;
};

TEST_F(CudaAttentionTest, SharedPrefixesGiveTheSameResultsWithinRounding) {
  Open(/*deterministic=*/false);
  std::vector<Sequence> sequences;
  for (int32_t i = 0; i < 6; ++i) sequences.push_back({700 + 20 * i, 1, 60 + 10 * i, 40});
  const std::vector<float> alone = Run(sequences, false), shared = Run(sequences, true);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < alone.size(); ++i) {
    difference += std::pow(alone[i] - shared[i], 2);
    norm += std::pow(alone[i], 2);
  }
  EXPECT_NE(alone, shared) << "nothing was shared";
  EXPECT_LT(std::sqrt(difference / norm), 4e-3);
}

TEST_F(CudaAttentionTest, DeterministicRowsDoNotDependOnTheirBatch) {
  Open(/*deterministic=*/true);
  EXPECT_EQ(backend_->numeric_path(), "cuda/bf16/deterministic");
  const Sequence decode = {700, 1, 60, 40}, chunk = {320, 21, 90, 0};
  std::vector<float> expected = Run({decode}, true);
  const std::vector<float> rows = Run({chunk}, true);
  expected.insert(expected.end(), rows.begin(), rows.end());
  const std::vector<float> among = Run(
      {decode, chunk, {800, 1, 70, 40}, {650, 1, 100, 40}, {90, 30, 120, 0}, {15, 1, 9, 0}}, true);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), among.begin()));
}

}  // namespace
}  // namespace octavo::cuda
