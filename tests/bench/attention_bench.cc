// Paged attention of SmolLM2-135M's shape against what this machine can do, measured in the same
// run: decode against the raw read rate of the same bytes, prefill against the FMA rate.
//
//   octavo_attention_bench [threads] [avx2|avx512] [bf16|fp16|float32|int8|fp8_e4m3|fp8_e5m2]
//   octavo_attention_bench [threads] [avx2|avx512] compare
//
// `compare` runs decode at batch 32 and context 1,500 with every type in turns, so that the
// machine's slow moments meet all of them, and prints tokens of attention relative to bf16's.
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "worker/cpu/attention.h"
#include "worker/cpu/host_buffer.h"
#include "worker/cpu/host_limits.h"

namespace octavo {
namespace {

constexpr int32_t kHeads = 9, kKvHeads = 3, kHeadDim = 64, kLayers = 30, kBlockSize = 16;

struct Timing {
  double min, median, max;  // seconds
};

Timing Measure(int repeats, absl::FunctionRef<void()> body) {
  body();
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[seconds.size() / 2], seconds.back()};
}

// Sums a thread's part of `bytes`, a line at a time.
float ReadAll(const std::byte* data, size_t bytes) {
  __m256 sum[4] = {};
  for (size_t i = 0; i + 128 <= bytes; i += 128) {
    _mm_prefetch(reinterpret_cast<const char*>(data + i + 4096), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(data + i + 4160), _MM_HINT_T0);
    for (int j = 0; j < 4; ++j)
      sum[j] =
          _mm256_add_ps(sum[j], _mm256_loadu_ps(reinterpret_cast<const float*>(data + i) + 8 * j));
  }
  const __m256 total = _mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3]));
  return _mm256_cvtss_f32(total);
}

Timing ReadRate(ThreadPool& pool, const std::byte* data, size_t bytes, int repeats) {
  std::vector<float> sink(static_cast<size_t>(pool.size()) * 16);
  return Measure(repeats, [&] {
    pool.Run([&](int thread) {
      const size_t begin = bytes / static_cast<size_t>(pool.size()) * static_cast<size_t>(thread);
      sink[static_cast<size_t>(thread) * 16] =
          ReadAll(data + begin, bytes / static_cast<size_t>(pool.size()));
    });
  });
}

constexpr int64_t kPeakRounds = 100'000;

__attribute__((target("avx512f"))) float PeakAvx512() {
  __m512 sum[12];
#pragma GCC unroll 12
  for (__m512& lane : sum) lane = _mm512_set1_ps(1e-3f);
  const __m512 x = _mm512_set1_ps(0.999f);
  for (int64_t i = 0; i < kPeakRounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) {
      sum[j] = _mm512_fmadd_ps(sum[j], x, x);
      asm volatile("" : "+v"(sum[j]));
    }
  }
  float total = 0;
#pragma GCC unroll 12
  for (const __m512& lane : sum) total += _mm512_cvtss_f32(lane);
  return total;
}

float PeakAvx2() {
  __m256 sum[12];
#pragma GCC unroll 12
  for (__m256& lane : sum) lane = _mm256_set1_ps(1e-3f);
  const __m256 x = _mm256_set1_ps(0.999f);
  for (int64_t i = 0; i < kPeakRounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) {
      sum[j] = _mm256_fmadd_ps(sum[j], x, x);
      asm volatile("" : "+x"(sum[j]));
    }
  }
  float total = 0;
#pragma GCC unroll 12
  for (const __m256& lane : sum) total += _mm256_cvtss_f32(lane);
  return total;
}

// FLOP/s of all threads.
double FmaPeak(ThreadPool& pool, Isa isa) {
  std::vector<float> sink(static_cast<size_t>(pool.size()) * 16);
  const Timing timing = Measure(50, [&] {
    pool.Run([&](int thread) {
      sink[static_cast<size_t>(thread) * 16] = isa != Isa::kAvx2 ? PeakAvx512() : PeakAvx2();
    });
  });
  const double lanes = isa != Isa::kAvx2 ? 16 : 8;
  return 2 * lanes * 12 * static_cast<double>(kPeakRounds) * pool.size() / timing.min;
}

// A batch of equal sequences over shuffled blocks of a pool of all layers.
class Workload {
 public:
  Workload(DType dtype, int32_t sequences, int32_t context, int32_t rows)
      : geometry_(CacheGeometry::Create({kLayers, kKvHeads, kHeadDim}, dtype, kBlockSize).value()) {
    const auto blocks = static_cast<int32_t>(geometry_.BlocksFor(context + rows));
    pool_ = AllocateHostBuffer(
                static_cast<size_t>(geometry_.PoolBytes(int64_t{blocks} * sequences + 1)))
                .value();
    FillPool(dtype);
    tables_.resize(static_cast<size_t>(blocks) * static_cast<size_t>(sequences));
    std::iota(tables_.begin(), tables_.end(), 1);
    std::shuffle(tables_.begin(), tables_.end(), std::mt19937_64(1));
    for (int32_t i = 0; i < sequences; ++i)
      batch_.sequences.push_back({i * rows, rows, context, i * blocks, blocks});
    batch_.num_rows = sequences * rows;
    batch_.block_tables = tables_.data();
    const auto floats = static_cast<size_t>(batch_.num_rows * kHeads * kHeadDim);
    q_.resize(floats);
    out_.resize(floats);
    std::mt19937_64 random(2);
    std::normal_distribution<float> normal(0, 1);
    for (float& x : q_) x = normal(random);
    params_.q = {q_.data(), batch_.num_rows, kHeads * kHeadDim, kHeads * kHeadDim};
    params_.out = params_.q;
    params_.out.data = out_.data();
    params_.num_heads = kHeads;
    params_.num_kv_heads = kKvHeads;
    params_.head_dim = kHeadDim;
    params_.scale = 0.125f;
    params_.batch = &batch_;
    params_.pool = {pool_.data(), geometry_};
  }

  void RunLayer(Attention& attention, int32_t layer) {
    params_.layer = layer;
    const absl::Status status = attention.Run(params_);
    if (!status.ok()) std::printf("%s\n", std::string(status.message()).c_str()), std::exit(1);
  }
  const Buffer& pool() const { return pool_; }
  int64_t bytes_per_token_layer() const { return geometry_.bytes_per_token() / kLayers; }
  float checksum() const { return std::accumulate(out_.begin(), out_.end(), 0.0f); }

 private:
  // Small finite numbers in every format: exponents near 0. int8 takes any bytes as elements; its
  // scales, which lie among them, are around 2^-7.
  void FillPool(DType dtype) {
    std::mt19937 random(3);
    if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) {
      for (size_t i = 0; i < pool_.bytes(); ++i)
        pool_.as<uint8_t>()[i] = static_cast<uint8_t>((0x34 + random() % 8) | (random() & 0x80));
      return;
    }
    const size_t count = pool_.bytes() / 2;
    auto* halves = pool_.as<uint16_t>();
    const uint16_t one = dtype == DType::kF16 ? 0x3800 : dtype == DType::kI8 ? 0x2000 : 0x3f00;
    for (size_t i = 0; i < count; ++i)
      halves[i] = static_cast<uint16_t>((one + random() % 128) |
                                        (dtype == DType::kI8 ? 0 : random() & 0x8000));
  }

  CacheGeometry geometry_;
  Buffer pool_;
  std::vector<BlockId> tables_;
  StepBatch batch_;
  std::vector<float> q_, out_;
  PagedAttentionParams params_;
};

void Decode(ThreadPool& pool, Isa isa, DType dtype, int32_t sequences, int32_t context) {
  Workload workload(dtype, sequences, context - 1, 1);
  Attention attention(isa, pool);
  const int repeats = sequences == 1 ? 100 : 15;
  const Timing timing = Measure(repeats, [&] {
    for (int32_t layer = 0; layer < kLayers; ++layer) workload.RunLayer(attention, layer);
  });
  const Timing read = ReadRate(pool, workload.pool().data(), workload.pool().bytes(), repeats);
  const double bytes = static_cast<double>(sequences) * context *
                       static_cast<double>(workload.bytes_per_token_layer());
  const auto pool_bytes = static_cast<double>(workload.pool().bytes());
  std::printf(
      "decode  %3d x %5d  %8.1f %8.1f %8.1f us/layer  GB/s %5.1f %5.1f  read %5.1f %5.1f  ratio "
      "%.2f %.2f\n",
      sequences, context, timing.min / kLayers * 1e6, timing.median / kLayers * 1e6,
      timing.max / kLayers * 1e6, bytes * kLayers / timing.median * 1e-9,
      bytes * kLayers / timing.min * 1e-9, pool_bytes / read.median * 1e-9,
      pool_bytes / read.min * 1e-9, bytes * kLayers / pool_bytes * read.median / timing.median,
      bytes * kLayers / pool_bytes * read.min / timing.min);
}

void Prefill(ThreadPool& pool, Isa isa, DType dtype, int32_t rows, double peak) {
  Workload workload(dtype, 1, 0, rows);
  Attention attention(isa, pool);
  int32_t layer = 0;
  const Timing timing = Measure(20, [&] { workload.RunLayer(attention, layer++ % kLayers); });
  // Multiply-adds of the unmasked pairs of a query and a key.
  const double flops = 4.0 * kHeads * kHeadDim * 0.5 * rows * (rows + 1.0);
  std::printf("prefill %9d  %8.2f %8.2f %8.2f ms/layer  GFLOP/s %5.1f %5.1f  ratio %.2f %.2f\n",
              rows, timing.min * 1e3, timing.median * 1e3, timing.max * 1e3,
              flops / timing.median * 1e-9, flops / timing.min * 1e-9, flops / timing.median / peak,
              flops / timing.min / peak);
}

// One pass over all layers for each type, in turns.
void Compare(ThreadPool& pool, Isa isa) {
  constexpr int32_t kSequences = 32, kContext = 1500;
  constexpr int kRounds = 25;
  const DType dtypes[] = {DType::kBF16, DType::kF32,    DType::kF16,
                          DType::kI8,   DType::kF8E4M3, DType::kF8E5M2};
  std::vector<std::unique_ptr<Workload>> workloads;
  for (const DType dtype : dtypes)
    workloads.push_back(std::make_unique<Workload>(dtype, kSequences, kContext - 1, 1));
  Attention attention(isa, pool);
  std::vector<std::vector<double>> seconds(std::size(dtypes));
  for (int round = -1; round < kRounds; ++round) {  // the first one warms up
    for (size_t i = 0; i < std::size(dtypes); ++i) {
      const auto start = std::chrono::steady_clock::now();
      for (int32_t layer = 0; layer < kLayers; ++layer) workloads[i]->RunLayer(attention, layer);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (round >= 0) seconds[i].push_back(took.count());
    }
  }
  std::printf("decode of all layers, %d x %d, %d rounds in turns\n", kSequences, kContext, kRounds);
  for (size_t i = 0; i < std::size(dtypes); ++i) {
    std::vector<double> ratios;
    for (size_t round = 0; round < seconds[i].size(); ++round)
      ratios.push_back(seconds[0][round] / seconds[i][round]);
    std::sort(ratios.begin(), ratios.end());
    std::sort(seconds[i].begin(), seconds[i].end());
    const double bytes = double{kSequences} * kContext * kLayers *
                         static_cast<double>(workloads[i]->bytes_per_token_layer());
    const double median = seconds[i][seconds[i].size() / 2];
    std::printf("%-9s %6.2f %6.2f %6.2f ms  GB/s %5.1f  speed / bf16 %.2f %.2f %.2f\n",
                std::string(Info(dtypes[i]).name).c_str(), seconds[i].front() * 1e3, median * 1e3,
                seconds[i].back() * 1e3, bytes / median * 1e-9, ratios.front(),
                ratios[ratios.size() / 2], ratios.back());
  }
}

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : DefaultThreads();
  const Isa isa = argc > 2 && std::string(argv[2]) == "avx2" ? Isa::kAvx2 : DetectIsa();
  const DType dtype = argc > 3 ? ParseFloatOrInt8(argv[3]).value_or(DType::kBF16) : DType::kBF16;
  if (threads < 1) return 1;
  ThreadPool pool(threads);
  std::printf("threads %d, %s, KV %s; times are min median max, rates and ratios are median best\n",
              threads, Name(isa), std::string(Info(dtype).name).c_str());
  if (argc > 3 && std::string(argv[3]) == "compare") {
    Compare(pool, isa);
    return 0;
  }
  for (const int32_t sequences : {1, 32})
    for (const int32_t context : {256, 1000, 2000}) Decode(pool, isa, dtype, sequences, context);
  const double peak = FmaPeak(pool, isa);
  std::printf("FMA peak %.1f GFLOP/s (best)\n", peak * 1e-9);
  for (const int32_t rows : {512, 1500}) Prefill(pool, isa, dtype, rows, peak);
  return 0;
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) { return octavo::Main(argc, argv); }
