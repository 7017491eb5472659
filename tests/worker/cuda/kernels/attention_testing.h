// Attention kernels under test: a pool in device memory with random tokens in shuffled blocks, NaN
// in all slots that no row sees, and block numbers that do not exist behind the tables' ends.
#ifndef OCTAVO_TESTS_WORKER_CUDA_KERNELS_ATTENTION_TESTING_H_
#define OCTAVO_TESTS_WORKER_CUDA_KERNELS_ATTENTION_TESTING_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/conformance/attention_reference.h"
#include "tests/emulation/device_array.h"
#include "worker/cuda/kernels/paged_decode.h"
#include "worker/cuda/kernels/paged_prefill.h"
#include "worker/cuda/work_list.h"

namespace octavo::cuda {

// Rows of one sequence that are computed now.
struct SequenceChunk {
  int32_t context = 0;  // position of the first
  int32_t rows = 1;
  // The first `shared` tokens, whole blocks, are those of an earlier sequence: the same blocks.
  int32_t like = -1;
  int32_t shared = 0;
};

// The cache and the queries of some sequences.
class AttentionUnderTest {
 public:
  // Sequence i has random tokens of seed + i. Queries are numbers that the tensor cores take as
  // they are, so that what is measured is the kernels' error.
  AttentionUnderTest(const PagedShape& shape, const std::vector<SequenceChunk>& chunks,
                     uint64_t seed = 1);

  // Builds work lists and launches what is in them: [rows][num_heads * head_dim]. Rows that nobody
  // computed are NaN. An error says what a launch answered, that values were written beside the
  // rows, or that arrivals are left.
  absl::StatusOr<std::vector<float>> TryRun(const WorkListOptions& options);
  // The same; fails the test on an error.
  std::vector<float> Run(const WorkListOptions& options);
  // The same of given lists.
  std::vector<float> RunDecodes(const std::vector<DecodeItem>& items,
                                const std::vector<int32_t>& runs, int32_t num_partials);

  // Of row `row` of all chunks' rows.
  std::vector<double> Reference(int32_t row) const;

  // The worst relative error, in the 2-norm, of a head of a row. Infinite for NaN.
  double WorstError(const std::vector<float>& out) const;

  const std::vector<SequenceRows>& sequences() const { return sequences_; }
  // What Run builds.
  AttentionWorkList ListOf(const WorkListOptions& options) const;
  TokenRows& tokens(size_t sequence) { return tokens_[sequence]; }
  // Writes changed tokens into the pool and the queries.
  void Upload();
  // Blocks are numbered from here on, and the pool's start is as far before its memory.
  void SetFirstBlock(int32_t first_block);

 private:
  struct Device;
  absl::Status LaunchDecode(Device& device, const std::vector<DecodeItem>& items,
                            const std::vector<int32_t>& runs,
                            const std::vector<SharedRow>& shared_rows, int32_t num_partials);
  absl::Status LaunchPrefill(Device& device, const std::vector<PrefillItem>& items);
  absl::StatusOr<std::vector<float>> Finish(const Device& device, const absl::Status& status) const;
  void WriteToken(size_t sequence, int32_t position, std::vector<std::byte>& pool) const;
  PagedKv Layer(std::byte* pool) const;
  PagedAttentionArgs ArgsOf(const Device& device) const;
  size_t NumValues() const {
    return static_cast<size_t>(num_rows_ * shape_.num_heads * shape_.head_dim);
  }
  int64_t q_stride() const { return shape_.num_heads * int64_t{shape_.head_dim} + 24; }
  int64_t out_stride() const { return shape_.num_heads * int64_t{shape_.head_dim} + 8; }

  PagedShape shape_;
  std::vector<TokenRows> tokens_;
  std::vector<SequenceRows> sequences_;
  std::vector<int32_t> tables_;
  int32_t num_blocks_ = 0;
  int32_t num_rows_ = 0;
  int32_t first_block_ = 0;
  std::vector<std::byte> pool_;
  std::vector<float> q_;
};

// Single rows at the ends of sequences of these lengths.
std::vector<SequenceChunk> DecodesOf(const std::vector<int32_t>& lengths);

// What the error of a cache's type may be: p is rounded to bf16 (2^-9) or fp16 (2^-12) before it
// meets V, and sums are fp32. An average over the positions keeps about a rounding's size.
double Tolerance(DType dtype);

std::string Describe(const PagedShape& shape);

// The worst error is within the tolerance.
void ExpectNearReference(const PagedShape& shape, const std::vector<SequenceChunk>& chunks,
                         const WorkListOptions& options);

inline constexpr DType kCacheTypes[] = {DType::kBF16, DType::kF16, DType::kI8, DType::kF8E4M3,
                                        DType::kF8E5M2};

}  // namespace octavo::cuda

#endif  // OCTAVO_TESTS_WORKER_CUDA_KERNELS_ATTENTION_TESTING_H_
