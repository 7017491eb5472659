#include "worker/cpu/softcap.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "worker/cpu/simd_tanh.h"

namespace octavo {
namespace {

namespace simd = OCTAVO_SIMD;

// Below this many elements another thread takes longer to wake than to help.
constexpr int64_t kSmallElements = 8192;

void CapRow(float* x, int64_t count, float cap) {
  const simd::Vec scale = simd::Set1(1.0f / cap), caps = simd::Set1(cap);
  int64_t i = 0;
  for (; i + simd::kLanes <= count; i += simd::kLanes)
    simd::Store(x + i, simd::Mul(caps, simd::Tanh(simd::Mul(simd::Load(x + i), scale))));
  if (i == count) return;
  alignas(64) float rest[simd::kLanes] = {};
  std::copy(x + i, x + count, rest);
  simd::Store(rest, simd::Mul(caps, simd::Tanh(simd::Mul(simd::Load(rest), scale))));
  std::copy(rest, rest + (count - i), x + i);
}

}  // namespace

absl::Status Softcap(const SoftcapParams& params, ThreadPool& pool) {
  const Matrix& x = params.x;
  if (!std::isfinite(params.cap) || params.cap <= 0)
    return absl::InvalidArgumentError(
        absl::StrCat("softcap: cap is ", params.cap, "; it must be above 0"));
  // Pieces of whole vectors, so that where a row is cut changes nothing.
  const int64_t pieces = std::max<int64_t>(1, x.cols / kSmallElements);
  const int64_t step = (x.cols / pieces + simd::kLanes - 1) / simd::kLanes * simd::kLanes;
  const auto share = [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = std::min(item % pieces * step, x.cols);
      const int64_t last = item % pieces == pieces - 1 ? x.cols : std::min(first + step, x.cols);
      CapRow(x.row(item / pieces) + first, last - first, params.cap);
    }
  };
  const int64_t items = x.rows * pieces;
  if (x.rows * x.cols < kSmallElements) {
    share(0, items);
  } else {
    pool.Run([&](int thread) {
      share(items * thread / pool.size(), items * (thread + 1) / pool.size());
    });
  }
  return absl::OkStatus();
}

}  // namespace octavo
