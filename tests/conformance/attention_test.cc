// Paged attention against a double reference, and its promise of equal bits (det.2).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/conformance/paged_cache.h"
#include "worker/cpu/cpu_backend.h"

namespace octavo {
namespace {

std::unique_ptr<CpuBackend> MakeCpu(int threads, Isa isa = DetectIsa()) {
  CpuBackendOptions options;
  options.threads = threads;
  options.isa = isa;
  return CpuBackend::Create(options).value();
}

std::vector<Isa> Isas() {
  if (DetectIsa() >= Isa::kAvx512) return {Isa::kAvx2, Isa::kAvx512};
  return {Isa::kAvx2};
}

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16,   DType::kF16,
                             DType::kI8,  DType::kF8E4M3, DType::kF8E5M2};

std::string Describe(const PagedShape& shape) {
  return std::string(Info(shape.dtype).name.data()) + " heads " + std::to_string(shape.num_heads) +
         "/" + std::to_string(shape.num_kv_heads) + " dim " + std::to_string(shape.head_dim) +
         " block " + std::to_string(shape.block_size) + " window " +
         std::to_string(shape.sliding_window);
}

// Scores here reach 8 or so; their f32 sums are off by about 1e-6, and so, relatively, is every
// p = exp(score). V is around 1.4, so an average of it is off by some 1e-6 too.
constexpr double kTolerance = 6e-6;

void ExpectNear(const float* row, const std::vector<double>& reference, int32_t position) {
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double error = std::abs(double{row[i]} - reference[i]);
    if (!(error <= worst)) worst = error, at = i;  // also when NaN
  }
  EXPECT_LE(worst, kTolerance) << "position " << position << " column " << at << ": " << row[at]
                               << " for " << reference[at];
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// One prefill chunk and one decode row after it.
void CheckPrefillAndDecode(Backend& backend, const PagedShape& shape, int32_t context) {
  SCOPED_TRACE(Describe(shape) + " context " + std::to_string(context));
  PagedCache cache(backend, shape, 1100 / shape.block_size);
  const int32_t sequence = cache.Add(RandomTokens(shape, context + 1, 11));
  const auto cols = static_cast<size_t>(shape.num_heads * shape.head_dim);
  const std::vector<float> prefill = cache.Step({{sequence, 0, context}});
  for (const int32_t p : {0, 1, context / 3, context / 2, context - 2, context - 1})
    if (p >= 0 && p < context)
      ExpectNear(prefill.data() + static_cast<size_t>(p) * cols, cache.Reference(sequence, p), p);
  const std::vector<float> decode = cache.Step({{sequence, context, 1}});
  ExpectNear(decode.data(), cache.Reference(sequence, context), context);
}

TEST(PagedAttention, MatchesTheReferenceAtEdgeContexts) {
  for (const Isa isa : Isas()) {
    const auto backend = MakeCpu(2, isa);
    for (const int32_t context : {1, 15, 16, 17, 127, 128, 129, 1000})
      for (const int32_t block_size : {8, 16, 32, 64}) {
        PagedShape shape;
        shape.block_size = block_size;
        CheckPrefillAndDecode(*backend, shape, context);
      }
  }
}

TEST(PagedAttention, MatchesTheReferenceForEveryDtypeAndHeadDim) {
  for (const Isa isa : Isas()) {
    const auto backend = MakeCpu(2, isa);
    for (const DType dtype : kDTypes)
      for (const int32_t head_dim : {8, 16, 24, 40, 64, 72, 80, 96, 128, 256})
        for (const int32_t block_size : {8, 16}) {
          PagedShape shape;
          shape.dtype = dtype;
          shape.head_dim = head_dim;
          shape.block_size = block_size;
          CheckPrefillAndDecode(*backend, shape, 137);
        }
  }
}

TEST(PagedAttention, MatchesTheReferenceForEveryGroupSize) {
  for (const Isa isa : Isas()) {
    const auto backend = MakeCpu(2, isa);
    for (const DType dtype : {DType::kBF16, DType::kI8})
      for (const auto& [heads, kv_heads] : {std::pair{2, 2},
                                            {9, 3},
                                            {4, 1},
                                            {8, 1},
                                            {16, 2},
                                            {5, 1},
                                            {7, 1},
                                            {24, 2},
                                            {50, 1},
                                            {64, 1}}) {
        PagedShape shape;
        shape.num_heads = heads;
        shape.num_kv_heads = kv_heads;
        shape.dtype = dtype;
        CheckPrefillAndDecode(*backend, shape, 150);
      }
  }
}

TEST(PagedAttention, MatchesTheReferenceInSlidingWindows) {
  for (const Isa isa : Isas()) {
    const auto backend = MakeCpu(2, isa);
    for (const int32_t window : {1, 16, 100, 128, 1000})
      for (const int32_t block_size : {8, 32})
        for (const int32_t context : {17, 129, 400}) {
          PagedShape shape;
          shape.sliding_window = window;
          shape.block_size = block_size;
          CheckPrefillAndDecode(*backend, shape, context);
        }
  }
}

TEST(PagedAttention, MatchesTheReferenceWithCappedScores) {
  for (const Isa isa : Isas()) {
    const auto backend = MakeCpu(2, isa);
    for (const float cap : {0.5f, 5.0f, 50.0f})
      for (const int32_t window : {0, 100}) {
        PagedShape shape;
        shape.dtype = window > 0 ? DType::kI8 : DType::kBF16;
        shape.softcap = cap;
        shape.sliding_window = window;
        CheckPrefillAndDecode(*backend, shape, 300);
      }
  }
}

// Blocks that have left every row's window may be lent to others: nothing of them may be read into
// a result.
TEST(PagedAttention, IgnoresBlocksThatLeftTheWindow) {
  const auto backend = MakeCpu(1);
  for (const DType dtype : kDTypes) {
    PagedShape shape;
    shape.dtype = dtype;
    shape.sliding_window = 20;
    PagedCache cache(*backend, shape, 64);
    const int32_t sequence = cache.Add(RandomTokens(shape, 300, 5));
    // Positions before 200 are never written: their slots hold NaN, and so do the rows below 219.
    cache.Step({{sequence, 200, 40}});
    const std::vector<float> rows = cache.Step({{sequence, 240, 40}});
    const auto cols = static_cast<size_t>(shape.num_heads * shape.head_dim);
    for (int32_t p = 240; p < 280; ++p)
      ExpectNear(rows.data() + static_cast<size_t>(p - 240) * cols, cache.Reference(sequence, p),
                 p);
  }
}

class EqualBits : public testing::TestWithParam<std::tuple<DType, int>> {
 protected:
  PagedShape Shape() const {
    PagedShape shape;
    shape.num_heads = 9;
    shape.num_kv_heads = 3;
    shape.dtype = std::get<0>(GetParam());
    shape.sliding_window = std::get<1>(GetParam());
    return shape;
  }
  static constexpr int32_t kLength = 330;

  // Every row of one sequence, alone, in one chunk, on one thread.
  std::vector<float> Baseline(const TokenRows& tokens) const {
    const auto backend = MakeCpu(1, Isa::kAvx2);
    PagedCache cache(*backend, Shape(), 64);
    const int32_t sequence = cache.Add(tokens);
    return cache.Step({{sequence, 0, kLength}});
  }
};

TEST_P(EqualBits, WhateverChunksThreadsBlockSizeAndInstructionSet) {
  const TokenRows tokens = RandomTokens(Shape(), kLength, 21);
  const std::vector<float> baseline = Baseline(tokens);
  for (const Isa isa : Isas())
    for (const int threads : {1, 2, 3}) {
      const auto backend = MakeCpu(threads, isa);
      for (const int32_t block_size : {8, 16, 32, 64})
        for (const int32_t chunk : {1, 7, 64, kLength}) {
          PagedShape shape = Shape();
          shape.block_size = block_size;
          PagedCache cache(*backend, shape, 1024 / block_size);
          const int32_t sequence = cache.Add(tokens);
          EXPECT_TRUE(SameBits(cache.Prefill(sequence, 0, kLength, chunk), baseline))
              << Name(isa) << " threads " << threads << " block " << block_size << " chunk "
              << chunk;
        }
    }
}

TEST_P(EqualBits, WhateverRunsInTheSameBatch) {
  const PagedShape shape = Shape();
  const TokenRows tokens = RandomTokens(shape, kLength, 22);
  const std::vector<float> baseline = Baseline(tokens);
  const auto cols = static_cast<size_t>(shape.num_heads * shape.head_dim);
  const auto backend = MakeCpu(2);
  PagedCache cache(*backend, shape, 256);
  const int32_t subject = cache.Add(tokens);
  std::vector<int32_t> mates;
  for (uint64_t i = 0; i < 5; ++i) mates.push_back(cache.Add(RandomTokens(shape, 400, 100 + i)));
  for (const int32_t mate : mates) cache.Step({{mate, 0, 100}});
  // The subject's rows between mates that decode and mates in prefill; chunks of growing size.
  std::vector<float> rows;
  int32_t step = 0;
  for (int32_t p = 0; p < kLength; ++step) {
    const int32_t chunk = std::min(1 + step % 9 * 4, kLength - p);
    const std::vector<float> out = cache.Step({{mates[0], 100 + step, 1},
                                               {mates[1], 100 + step, 1},
                                               {subject, p, chunk},
                                               {mates[2], 100 + step, 30},
                                               {mates[3], 100 + step, 1}});
    const auto begin = out.begin() + static_cast<std::ptrdiff_t>(2 * cols);
    rows.insert(rows.end(), begin,
                begin + static_cast<std::ptrdiff_t>(static_cast<size_t>(chunk) * cols));
    p += chunk;
  }
  EXPECT_TRUE(SameBits(rows, baseline));
}

INSTANTIATE_TEST_SUITE_P(PagedAttention, EqualBits,
                         testing::Combine(testing::ValuesIn(kDTypes), testing::Values(0, 100)));

// Blocks that a window has left are not looked at, not even where their NaN would be masked.
TEST(PagedAttention, AWindowedGroupGivesTheBitsOfOneGroup) {  // kv.7, det.2
  const auto backend = MakeCpu(2);
  for (const int32_t block_size : {8, 16, 64}) {
    for (const int32_t window : {1, 20, 130, 500}) {
      PagedShape shape;
      shape.block_size = block_size;
      shape.sliding_window = window;
      PagedCache one(*backend, shape, 50);
      shape.in_windowed_group = true;
      PagedCache grouped(*backend, shape, 50);
      for (PagedCache* cache : {&one, &grouped}) cache->Add(RandomTokens(shape, 300, 5));
      for (const int32_t chunk : {64, 7}) {
        EXPECT_EQ(grouped.Prefill(0, 0, 280, chunk), one.Prefill(0, 0, 280, chunk));
      }
      EXPECT_EQ(grouped.Prefill(0, 280, 300, 1), one.Prefill(0, 280, 300, 1))
          << block_size << " " << window;
    }
  }
}

TEST(PagedAttention, RefusesContradictingShapes) {
  const auto backend = MakeCpu(1);
  const KvShape kv_shape{1, 2, 64};
  const CacheGeometry geometry = CacheGeometry::Create(kv_shape, DType::kBF16, 16).value();
  std::vector<std::byte> pool(static_cast<size_t>(geometry.PoolBytes(3)));
  std::vector<float> q(256), out(256);
  const BlockId table[] = {1, 2};
  StepBatch batch;
  batch.num_rows = 1;
  batch.block_tables = table;
  batch.sequences = {{0, 1, 31, 0, 2}};
  PagedAttentionParams good;
  good.q = {q.data(), 1, 256, 256};
  good.out = {out.data(), 1, 256, 256};
  good.num_heads = 4;
  good.num_kv_heads = 2;
  good.head_dim = 64;
  good.scale = 0.125f;
  good.batch = &batch;
  good.pool = {pool.data(), geometry};
  ASSERT_TRUE(backend->PagedAttention(good).ok());
  const auto refused = [&](const PagedAttentionParams& params) {
    return backend->PagedAttention(params).code() == absl::StatusCode::kInvalidArgument;
  };
  PagedAttentionParams bad = good;
  bad.head_dim = 32;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.num_heads = 3;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.layer = 1;
  EXPECT_TRUE(refused(bad));
  batch.num_groups = 2;
  EXPECT_TRUE(refused(good)) << "tables of another number of groups";
  batch.num_groups = 1;
  bad = good;
  bad.scale = NAN;
  EXPECT_TRUE(refused(bad));
  batch.sequences[0].context_length = 32;
  EXPECT_TRUE(refused(good)) << "a position beyond the table's blocks";
  batch.sequences[0].context_length = 31;
}

}  // namespace
}  // namespace octavo
