// Grid: one block of 512 threads per row. A row is read from L2 once for the largest logit; a draw
// reads it once more for the sum (then a 16th, a 256th, ...), top_k and top_p three times each for
// their cut, log-probabilities once for the sum and four times for the most likely: 4 bytes per
// logit and pass, four 16-byte loads in flight per thread, 32 KiB per block. Shared memory 17 KiB.
#include "worker/cuda/kernels/sampling.h"

#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/sampling_scan.cuh"
#include "worker/cuda/kernels/shape_check.h"
#include "worker/cuda/kernels/smem.cuh"

namespace octavo::cuda {
namespace {

constexpr int kMaxTop = 64;
constexpr uint32_t kInfinityKey = 0xff800000u;       // OrderedBits(+infinity)
constexpr uint32_t kMinusInfinityKey = 0x007fffffu;  // and of -infinity

// Tokens that filters leave: keys above `key`, and of those that equal it ids up to `last_token`.
struct Survivors {
  uint32_t key = 0;
  int last_token = 0x7fffffff;

  __device__ bool Has(int token, uint32_t other) const {
    return other > key || (other == key && token <= last_token);
  }
};

// The token among those of cut.key that is number `rank` (from 0) in order of id.
__device__ int FindEqual(const LogitRow& row, uint32_t key, Amount rank,
                         const RowScratch& scratch) {
  const auto one = [key](int, float logit) -> Amount { return OrderedBits(logit) == key; };
  const TokenChunks chunks(0, row.vocabulary);
  SumChunks(row, chunks, one, scratch);
  return FindInChunks(row, chunks, rank, one, scratch);
}

__device__ Survivors Filter(const LogitRow& row, const SamplingRowArgs& a, float max,
                            const RowScratch& scratch) {
  Survivors left;
  if (a.top_k > 0 && a.top_k < row.vocabulary) {
    const auto one = [](int, float) -> Amount { return 1; };
    left.key = SelectCut(row, static_cast<Amount>(a.top_k), one, scratch).key;
  }
  if (a.top_p < 1.0f) {
    const uint32_t least = left.key;
    const float scale = a.scale;
    const auto weight = [=](int, float logit) -> Amount {
      return OrderedBits(logit) < least ? 0 : FixedWeight(SamplingWeight(logit, max, scale));
    };
    Amount total = 0;
    ForEachLogit(row, [&](int token, float logit) { total += weight(token, logit); });
    total = RowSum(total, scratch);
    const Amount mass = MassToKeep(a.top_p, total);
    const Cut cut = SelectCut(row, mass, weight, scratch);
    left.key = cut.key;
    // Equal logits weigh the same; the first ones that reach the mass stay.
    const Amount each =
        weight(0, __uint_as_float(cut.key >> 31 != 0 ? cut.key & 0x7fffffffu : ~cut.key));
    const Amount staying = (mass - cut.before + each - 1) / each;
    if (staying * each < cut.at) left.last_token = FindEqual(row, cut.key, staying - 1, scratch);
  }
  const uint32_t least = OrderedBits(MinPBound(max, a.min_p_reach));
  if (least > left.key) left = {least, 0x7fffffff};
  return left;
}

__device__ int Draw(const LogitRow& row, const SamplingRowArgs& a, float max,
                    const RowScratch& scratch) {
  const Survivors left = Filter(row, a, max, scratch);
  const float scale = a.scale;
  const auto weight = [=](int token, float logit) -> Amount {
    return left.Has(token, OrderedBits(logit)) ? FixedWeight(SamplingWeight(logit, max, scale)) : 0;
  };
  const TokenChunks chunks(0, row.vocabulary);
  const Amount total = SumChunks(row, chunks, weight, scratch);
  return FindInChunks(row, chunks, DrawTarget(a.random, total), weight, scratch);
}

// The `count` most likely finite logits, lower ids first on ties, into top; returns how many.
// picked: shared, [kMaxTop].
__device__ int FillTop(const LogitRow& row, int count, TopLogit* top, Amount* picked,
                       int* num_picked, const RowScratch& scratch) {
  const auto one = [](int, float) -> Amount { return 1; };
  const Cut cut = SelectCut(row, static_cast<Amount>(count), one, scratch);
  Survivors left = {cut.key, 0x7fffffff};
  const Amount staying = static_cast<Amount>(count) - cut.before;
  if (staying < cut.at) left.last_token = FindEqual(row, cut.key, staying - 1, scratch);
  if (threadIdx.x == 0) *num_picked = 0;
  OCTAVO_UNLESS_PLANTED("sampling.top_cleared", __syncthreads());
  ForEachLogit(row, [&](int token, float logit) {
    const uint32_t key = OrderedBits(logit);
    if (key > kMinusInfinityKey && left.Has(token, key))
      picked[atomicAdd(num_picked, 1)] =
          static_cast<Amount>(key) << 32 | ~static_cast<uint32_t>(token);
  });
  OCTAVO_UNLESS_PLANTED("sampling.top_picked", __syncthreads());
  const int num = *num_picked;
  const int mine = static_cast<int>(threadIdx.x);
  if (mine < num) {
    int rank = 0;
    for (int i = 0; i < num; ++i) rank += picked[i] > picked[mine];
    const auto token = static_cast<int32_t>(~static_cast<uint32_t>(picked[mine]));
    top[rank] = {token, row.logits[token]};
  }
  return num;
}

}  // namespace

__global__ void __launch_bounds__(kSampleThreads)
    SampleRows(const __grid_constant__ SamplingArgs a, bool vector) {
  Smem smem;
  const RowScratch scratch = {smem.take<Amount>(kDigits), smem.take<Amount>(kSampleWarps),
                              smem.take<Amount>(3)};
  Amount* picked = smem.take<Amount>(kMaxTop);
  int* num_picked = smem.take<int>(1);
  const SamplingRowArgs row_args = a.row_args[blockIdx.x];
  const LogitRow row = {a.logits + blockIdx.x * a.stride, a.vocabulary, vector};

  // (key, ~token): the largest is the most likely token, the lowest id on ties.
  Amount best = 0;
  ForEachLogit(row, [&](int token, float logit) {
    const uint32_t key = logit != logit ? 0xffffffffu : OrderedBits(logit);
    const Amount candidate = static_cast<Amount>(key) << 32 | ~static_cast<uint32_t>(token);
    best = candidate > best ? candidate : best;
  });
  best = RowMax(best, scratch);
  const auto key = static_cast<uint32_t>(best >> 32);
  auto token = static_cast<int32_t>(~static_cast<uint32_t>(best));
  SampledRow result;
  result.max = row.logits[token];
  result.bad = key >= kInfinityKey || key <= kMinusInfinityKey;
  if (result.bad == 0) {  // the same in every thread
    const float max = result.max;
    if (row_args.target >= 0)
      token = row_args.target;
    else if (row_args.scale > 0)
      token = Draw(row, row_args, max, scratch);
    result.token = token;
    result.logit = row.logits[token];
    if (row_args.num_logprobs >= 0) {
      Amount total = 0;
      ForEachLogit(row, [&](int, float logit) {
        total += FixedWeight(SamplingWeight(logit, max, kUnitWeightScale));
      });
      result.total = RowSum(total, scratch);
    }
    const int count = min(min(row_args.num_logprobs, a.max_top), a.vocabulary);
    if (count > 0) {
      auto* tops = reinterpret_cast<TopLogit*>(a.sampled + a.rows * sizeof(SampledRow));
      result.num_top =
          FillTop(row, count, tops + blockIdx.x * int64_t{a.max_top}, picked, num_picked, scratch);
    }
  }
  if (threadIdx.x != 0) return;
  reinterpret_cast<SampledRow*>(a.sampled)[blockIdx.x] = result;
  if (a.tokens != nullptr) a.tokens[blockIdx.x] = result.token;
}

namespace {

constexpr size_t kSharedBytes =
    (kDigits + kSampleWarps + 4 + kMaxTop) * sizeof(Amount) + sizeof(int);

}  // namespace

absl::Status LaunchSampling(const SamplingArgs& args, cudaStream_t stream) {
  ShapeCheck check("sampling");
  check.AtLeast("rows", args.rows, 0);
  check.Between("vocabulary", args.vocabulary, 1, kMaxSampledVocabulary);
  check.AtLeast("the stride of logits", args.stride, args.vocabulary);
  check.Between("max_top", args.max_top, 0, kMaxTop);
  check.NotNull("logits", args.logits).Aligned("row_args", args.row_args, 16);
  check.Aligned("sampled", args.sampled, 16);
  if (!check.status().ok() || args.rows == 0) return check.status();
  const bool vector = args.stride % 4 == 0 && IsAligned16(args.logits);
  return Launch(SampleRows, dim3(args.rows), dim3(kSampleThreads), kSharedBytes, stream, args,
                vector);
}

}  // namespace octavo::cuda
