// The online softmax of attention over one window of positions, for a unit of rows: Milakov and
// Gimelshein, Online normalizer calculation for softmax (2018).
#ifndef OCTAVO_WORKER_CPU_ATTENTION_SOFTMAX_H_
#define OCTAVO_WORKER_CPU_ATTENTION_SOFTMAX_H_

#include "worker/cpu/attention_products.h"

namespace octavo {
namespace OCTAVO_SIMD {

inline constexpr float kMinusInfinity = -__builtin_inff();

// Positions of the window that a row sees, [begin, end); empty when begin >= end.
struct RowSpan {
  int begin;
  int end;
};

// Running maximum and sums of a row, and the factor of the current window.
struct SoftmaxState {
  float max[kMaxTileRows];
  float correction[kMaxTileRows + kLanes];  // turns earlier sums over to the new maximum
  float sums[kMaxTileRows][kLanes];         // lane = position mod 16
};

OCTAVO_SIMD_INLINE float WindowMax(const float* scores, RowSpan span) {
  Vec max = Set1(kMinusInfinity);
  int g = span.begin / kLanes;
  if (span.begin % kLanes != 0) {
    const int last = Least(span.end - g * kLanes, kLanes);
    max = KeepLanes(Load(scores + g * kLanes), span.begin % kLanes, last, max);
    ++g;
  }
  for (; (g + 1) * kLanes <= span.end; ++g) max = Max(max, Load(scores + g * kLanes));
  if (g * kLanes < span.end)
    max = Max(max,
              KeepLanes(Load(scores + g * kLanes), 0, span.end - g * kLanes, Set1(kMinusInfinity)));
  return ReduceMax(max);
}

// One row: scores of the groups become p, 0 where the row does not see, and join its sums.
OCTAVO_SIMD_INLINE void Exponentiate(float* scores, RowSpan span, int begin_group, int end_group,
                                     float max, float correction, float* sums) {
  const Vec max_lanes = Set1(max);
  Vec total = Mul(Load(sums), Set1(correction));
  if (span.begin <= begin_group * kLanes && span.end >= end_group * kLanes) {
    for (int g = begin_group; g < end_group; ++g) {
      const Vec p = Exp2(Sub(Load(scores + g * kLanes), max_lanes));
      Store(scores + g * kLanes, p);
      total = Add(total, p);
    }
  } else {
    for (int g = begin_group; g < end_group; ++g) {
      const int first = Least(Most(span.begin - g * kLanes, 0), kLanes);
      const int last = Most(Least(span.end - g * kLanes, kLanes), 0);
      Vec p = Zero();
      if (first < last) {
        p = KeepLanes(Exp2(Sub(Load(scores + g * kLanes), max_lanes)), first, last, Zero());
        total = Add(total, p);
      }
      Store(scores + g * kLanes, p);
    }
  }
  Store(sums, total);
}

// Rows [first_row, first_row + rows) of a tile over groups [begin_group, end_group) of the window.
// scores: [rows, kAttentionWindow]. REQUIRES: rows <= kLanes.
OCTAVO_SIMD_INLINE void SoftmaxUnit(int first_row, int rows, const RowSpan* spans, int begin_group,
                                    int end_group, float* scores, SoftmaxState& state) {
  float old_max[kLanes] = {}, new_max[kLanes] = {};
  for (int r = 0; r < rows; ++r) {
    if (spans[r].begin >= spans[r].end) continue;  // 0 and 0: a factor of 1
    float& max = state.max[first_row + r];
    const float reduced = WindowMax(scores + r * kAttentionWindow, spans[r]);
    old_max[r] = max;
    new_max[r] = reduced > max ? reduced : max;
    max = new_max[r];
  }
  float* correction = state.correction + first_row;
  Store(correction, Exp2(Sub(Load(old_max), Load(new_max))));
  for (int r = 0; r < rows; ++r) {
    float* row = scores + r * kAttentionWindow;
    if (spans[r].begin < spans[r].end) {
      Exponentiate(row, spans[r], begin_group, end_group, new_max[r], correction[r],
                   state.sums[first_row + r]);
    } else {
      for (int g = begin_group; g < end_group; ++g) Store(row + g * kLanes, Zero());
    }
  }
}

}  // namespace OCTAVO_SIMD
}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_ATTENTION_SOFTMAX_H_
