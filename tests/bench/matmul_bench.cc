// Speed of the CPU products beside what the machine can do: read bandwidth and f32 FMA peak are
// measured in the same run, on the same threads.
//
//   octavo_matmul_bench [--threads N] [--isa avx2|avx512|amx] [--dtype float32|int8] [--seconds S]
//                       [--only model|Q4_1|...]
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/check.h"
#include "worker/cpu/host_limits.h"
#include "worker/cpu/matmul.h"

namespace octavo {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Times {
  double min, median, max;
};

// Repeats for `seconds`, at least five times.
template <class Body>
Times Measure(double seconds, Body&& body) {
  std::vector<double> times;
  const double end = Now() + seconds;
  body();
  while (times.size() < 5 || Now() < end) {
    const double begin = Now();
    body();
    times.push_back(Now() - begin);
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2], times.back()};
}

// Independent FMA chains; returns operations done.
__attribute__((target("avx512f"))) double FmaLoop512(int64_t rounds, float* sink) {
  __m512 acc[16];
  for (int i = 0; i < 16; ++i) acc[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 a = _mm512_set1_ps(0.999f);
  for (int64_t n = 0; n < rounds; ++n) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) acc[i] = _mm512_fmadd_ps(acc[i], a, a);
  }
  for (int i = 0; i < 16; ++i) *sink += _mm512_cvtss_f32(acc[i]);
  return static_cast<double>(rounds) * 16 * 32;
}
double FmaLoop256(int64_t rounds, float* sink) {
  __m256 acc[12];
  for (int i = 0; i < 12; ++i) acc[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 a = _mm256_set1_ps(0.999f);
  for (int64_t n = 0; n < rounds; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm256_fmadd_ps(acc[i], a, a);
  }
  for (int i = 0; i < 12; ++i) *sink += _mm256_cvtss_f32(acc[i]);
  return static_cast<double>(rounds) * 12 * 16;
}

double PeakFlops(Isa isa, ThreadPool& pool) {
  std::vector<float> sinks(static_cast<size_t>(pool.size()) * 16);
  double operations = 0;
  const Times times = Measure(0.3, [&] {
    pool.Run([&](int thread) {
      float* sink = &sinks[static_cast<size_t>(thread) * 16];
      const double done = isa != Isa::kAvx2 ? FmaLoop512(200'000, sink) : FmaLoop256(200'000, sink);
      if (thread == 0) operations = done * pool.size();
    });
  });
  return operations / times.min;
}

// A plain read of the same size as the weights of one step, with the same prefetch distance.
double ReadBandwidth(int64_t bytes, ThreadPool& pool) {
  WeightArena arena;
  auto data = arena.Allocate(static_cast<size_t>(bytes));
  OCTAVO_CHECK(data.ok());
  std::memset(*data, 1, static_cast<size_t>(bytes));
  std::vector<int64_t> sinks(static_cast<size_t>(pool.size()) * 8);
  const int64_t lines = bytes / 64;
  const Times times = Measure(1.0, [&] {
    pool.Run([&](int thread) {
      const uint8_t* line = *data + lines * thread / pool.size() * 64;
      const uint8_t* end = *data + lines * (thread + 1) / pool.size() * 64;
      __m256i a = _mm256_setzero_si256();
      __m256i b = a;
      for (; line < end; line += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(line + 8192), _MM_HINT_T0);
        a = _mm256_xor_si256(a, _mm256_load_si256(reinterpret_cast<const __m256i*>(line)));
        b = _mm256_xor_si256(b, _mm256_load_si256(reinterpret_cast<const __m256i*>(line + 32)));
      }
      sinks[static_cast<size_t>(thread) * 8] += _mm256_extract_epi64(_mm256_xor_si256(a, b), 0);
    });
  });
  return static_cast<double>(bytes) / times.min;
}

// One layer shape and its random weights, `copies` times so that no run finds them in a cache.
struct Layer {
  std::string name;
  DType dtype;
  int64_t n, k;
  Epilogue epilogue;
  std::vector<std::unique_ptr<PackedLinear>> weights;
  int64_t out_cols() const { return epilogue == Epilogue::kSiluGate ? n / 2 : n; }
};

void Pack(Layer& layer, int64_t copies, WeightArena& arena, ThreadPool& pool) {
  std::mt19937 random(1);
  std::vector<std::byte> stored(static_cast<size_t>(layer.n * StorageBytes(layer.dtype, layer.k)));
  // No NaN, infinity or subnormal result: fp16 scales and floats have middling exponents.
  for (std::byte& b : stored) b = static_cast<std::byte>((random() & 0x03) | 0x38);
  LinearSource source;
  source.gated = layer.epilogue == Epilogue::kSiluGate;
  const int64_t parts = source.gated ? 2 : 1;
  for (int64_t p = 0; p < parts; ++p) {
    source.parts.push_back({layer.name, layer.dtype, layer.n / parts, layer.k,
                            stored.data() + static_cast<int64_t>(stored.size()) / parts * p});
  }
  for (int64_t i = 0; i < copies; ++i) {
    auto packed = PackedLinear::Pack(source, arena, pool);
    OCTAVO_CHECK(packed.ok(), packed.status().ToString());
    layer.weights.push_back(*std::move(packed));
  }
}

class Bench {
 public:
  Bench(Isa isa, ActivationDType dtype, int threads, double seconds)
      : isa_(isa), dtype_(dtype), pool_(threads), seconds_(seconds) {
    x_.assign(512 * 4096, 0.5f);
    out_.resize(size_t{512} * 49152);
    norm_.assign(4096, 1.0f);
    peak_ = PeakFlops(isa, pool_);
    read_ = ReadBandwidth(96'000'000, pool_);
    std::printf("isa %s, %d threads; FMA peak %.0f GFLOP/s, read of 96 MB %.1f GB/s (best)\n",
                Name(isa), threads, peak_ * 1e-9, read_ * 1e-9);
  }

  void Run(const Layer& layer, size_t copy, int64_t rows) {
    LinearParams params;
    params.x = {x_.data(), rows, layer.k, layer.k};
    params.epilogue = layer.epilogue;
    params.out = {out_.data(), rows, layer.out_cols(), layer.out_cols()};
    if (layer.epilogue != Epilogue::kAdd) params.norm = {norm_.data(), 1e-5f};
    const absl::Status status =
        RunLinear(*layer.weights[copy], params, dtype_, isa_, pool_, scratch_);
    OCTAVO_CHECK(status.ok(), status.ToString());
  }

  // Rates of the median call, and of the fastest in parentheses.
  void Report(const std::string& name, int64_t rows, const Times& times, double bytes,
              double operations) const {
    std::printf("%-24s %4lld | %9.1f %9.1f %9.1f | %6.1f %4.2f (%4.2f) | %7.1f %4.2f (%4.2f)\n",
                name.c_str(), static_cast<long long>(rows), times.min * 1e6, times.median * 1e6,
                times.max * 1e6, bytes / times.median * 1e-9, bytes / times.median / read_,
                bytes / times.min / read_, operations / times.median * 1e-9,
                operations / times.median / peak_, operations / times.min / peak_);
    std::fflush(stdout);
  }

  static void Header() {
    std::printf("%-24s %4s | %9s %9s %9s | %6s %11s | %7s %11s\n", "layer", "M", "min us", "median",
                "max", "GB/s", "of read", "GFLOP/s", "of peak");
  }

  // Every layer of a SmolLM2-135M step, in order.
  void Model() {
    WeightArena arena;
    std::vector<Layer> layers;
    layers.push_back({"qkv", DType::kQ4_1, 960, 576, Epilogue::kStore, {}});
    layers.push_back({"o", DType::kQ4_1, 576, 576, Epilogue::kAdd, {}});
    layers.push_back({"gate+up", DType::kQ4_1, 3072, 576, Epilogue::kSiluGate, {}});
    layers.push_back({"down", DType::kQ4_1, 576, 1536, Epilogue::kAdd, {}});
    layers.push_back({"head", DType::kQ8_0, 49152, 576, Epilogue::kStore, {}});
    const double begin = Now();
    for (Layer& layer : layers) Pack(layer, layer.name == "head" ? 1 : 30, arena, pool_);
    std::printf("packed %.1f MB in %.2f s (with making them up)\n",
                static_cast<double>(arena.allocated_bytes()) * 1e-6, Now() - begin);
    Header();
    for (const int64_t rows : {1, 2, 4, 8, 12, 16, 24, 32, 64, 128, 512}) {
      const int64_t head_rows = std::min<int64_t>(rows, 64);
      double operations = 0;
      for (const Layer& layer : layers) {
        operations += 2.0 * static_cast<double>(layer.n * layer.k) *
                      static_cast<double>(layer.weights.size()) *
                      static_cast<double>(layer.name == "head" ? head_rows : rows);
      }
      const Times times = Measure(4 * seconds_, [&] {
        for (size_t i = 0; i < 30; ++i)
          for (size_t l = 0; l < 4; ++l) Run(layers[l], i, rows);
        Run(layers[4], 0, head_rows);
      });
      Report("SmolLM2 step", rows, times, static_cast<double>(arena.allocated_bytes()), operations);
    }
    for (const Layer& layer : layers) Shape(layer);
  }

  void One(const std::string& name, DType dtype, int64_t n, int64_t k) {
    WeightArena arena;
    Layer layer = {name, dtype, n, k, Epilogue::kStore, {}};
    Pack(layer, std::max<int64_t>(1, 100'000'000 / StorageBytes(dtype, n * k)), arena, pool_);
    Shape(layer);
  }

 private:
  void Shape(const Layer& layer) {
    const std::string name = layer.name + " " + std::to_string(layer.n) + "x" +
                             std::to_string(layer.k) + " " + std::string(Info(layer.dtype).name);
    for (const int64_t rows : {1, 4, 8, 12, 16, 32, 64, 512}) {
      if (layer.n > 10000 && rows > 64) continue;
      size_t copy = 0;
      // A batch of calls long enough for the clock.
      const double operations = 2.0 * static_cast<double>(layer.n * layer.k * rows);
      const int calls = static_cast<int>(std::max(1.0, 2e7 / operations));
      Times times = Measure(seconds_, [&] {
        for (int i = 0; i < calls; ++i) {
          Run(layer, copy, rows);
          copy = (copy + 1) % layer.weights.size();
        }
      });
      times = {times.min / calls, times.median / calls, times.max / calls};
      Report(name, rows, times, static_cast<double>(layer.weights[0]->bytes()), operations);
    }
  }

  const Isa isa_;
  const ActivationDType dtype_;
  ThreadPool pool_;
  const double seconds_;
  MatmulScratch scratch_;
  std::vector<float> x_, out_, norm_;
  double peak_ = 0;
  double read_ = 0;
};

int Main(int argc, char** argv) {
  int threads = DefaultThreads();
  double seconds = 0.2;
  Isa isa = DetectIsa();
  ActivationDType dtype = ActivationDType::kFloat32;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--threads") threads = std::max(1, std::atoi(value.c_str()));
    if (flag == "--seconds") seconds = std::atof(value.c_str());
    if (flag == "--isa") {
      for (const Isa known : kIsas)
        if (value == Name(known)) isa = known;
    }
    if (flag == "--dtype" && value == "int8") dtype = ActivationDType::kInt8;
    if (flag == "--only") only = value;
  }
  Bench bench(isa, dtype, threads, seconds);
  if (only.empty() || only == "model") bench.Model();
  Bench::Header();
  for (const DType dtype :
       {DType::kQ4_1, DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0,
        DType::kQ5_0, DType::kQ5_1, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    if (only.empty() || Info(dtype).name == only) bench.One("big", dtype, 4096, 2048);
  }
  return 0;
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) { return octavo::Main(argc, argv); }
