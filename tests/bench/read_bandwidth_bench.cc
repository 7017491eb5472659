// What reading memory costs on this machine, now: the bound of a decode step, which reads every
// weight once a token. Prints one JSON object.
//
//   octavo_read_bandwidth_bench [BYTES [THREADS [REPEATS]]]
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "common/check.h"
#include "worker/cpu/host_buffer.h"
#include "worker/cpu/host_limits.h"
#include "worker/cpu/thread_pool.h"

namespace octavo {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Eight independent streams of 32-byte loads, prefetched as the kernels do.
uint64_t ReadAll(const std::byte* data, size_t bytes) {
  constexpr size_t kAhead = 8192;
  __m256i sums[8];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  for (size_t at = 0; at + 256 <= bytes; at += 256) {
    for (size_t line = 0; line < 256; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(data + at + kAhead + line), _MM_HINT_T0);
    }
    for (size_t i = 0; i < 8; ++i) {
      sums[i] = _mm256_xor_si256(
          sums[i], _mm256_load_si256(reinterpret_cast<const __m256i*>(data + at + i * 32)));
    }
  }
  uint64_t result = 0;
  for (const __m256i& sum : sums) result ^= static_cast<uint64_t>(_mm256_extract_epi64(sum, 0));
  return result;
}

int Main(size_t bytes, int threads, int repeats) {
  absl::StatusOr<Buffer> buffer = AllocateHostBuffer(bytes);
  OCTAVO_CHECK(buffer.ok(), buffer.status().message());
  for (size_t i = 0; i < bytes; i += 8) *reinterpret_cast<uint64_t*>(buffer->data() + i) = i;
  ThreadPool pool(threads);
  std::vector<uint64_t> sinks(static_cast<size_t>(threads) * 8);
  std::vector<double> rates;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const double start = Now();
    pool.Run([&](int thread) {
      const size_t share = bytes / static_cast<size_t>(threads) / 256 * 256;
      sinks[static_cast<size_t>(thread) * 8] ^=
          ReadAll(buffer->data() + share * static_cast<size_t>(thread), share);
    });
    rates.push_back(static_cast<double>(bytes) / (Now() - start) * 1e-9);
  }
  std::sort(rates.begin(), rates.end());
  std::printf(
      "{\"bytes\": %zu, \"threads\": %d, \"repeats\": %d, \"gb_per_s\": {\"min\": %.2f, "
      "\"median\": %.2f, \"max\": %.2f}, \"check\": %d}\n",
      bytes, threads, repeats, rates.front(), rates[rates.size() / 2], rates.back(),
      static_cast<int>(sinks[0] & 1));
  return 0;
}

}  // namespace
}  // namespace octavo

int main(int argc, char** argv) {
  const size_t bytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : size_t{98'000'000};
  const int threads = argc > 2 ? std::atoi(argv[2]) : octavo::DefaultThreads();
  const int repeats = argc > 3 ? std::atoi(argv[3]) : 31;
  if (bytes < 4096 || threads < 1 || repeats < 1) {
    std::fprintf(stderr, "usage: %s [BYTES [THREADS [REPEATS]]]\n", argv[0]);
    return 2;
  }
  return octavo::Main(bytes / 4096 * 4096, threads, repeats);
}
