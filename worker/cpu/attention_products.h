// The two products of attention over one window of positions, Q K and P V, for a unit of rows (a
// row is a query and a head) that fills the registers. Every lane is a sum of its own in one order,
// so the shape of a unit changes no bit.
#ifndef OCTAVO_WORKER_CPU_ATTENTION_PRODUCTS_H_
#define OCTAVO_WORKER_CPU_ATTENTION_PRODUCTS_H_

#include "worker/cpu/attention_elements.h"
#include "worker/cpu/attention_kernel.h"
#include "worker/cpu/simd16.h"

#define OCTAVO_UNROLL _Pragma("GCC unroll 16")

namespace octavo {
namespace OCTAVO_SIMD {

inline constexpr int kWindowGroups = kAttentionWindow / kLanes;
inline constexpr int kWindowHalves = 2 * kWindowGroups;  // of 8 positions
inline constexpr int kHalf = kLanes / 2;

// 32 registers of one Vec, or 16 registers of half a Vec.
inline constexpr int kUnitRows = OCTAVO_SIMD_AVX512 ? 12 : 6;
inline constexpr int kValueRows = OCTAVO_SIMD_AVX512 ? 12 : 3;

// Groups of scores computed at once: enough independent sums to hide the latency of an FMA.
constexpr int ScoreGroups(int rows) {
  if (OCTAVO_SIMD_AVX512) return rows == 1 ? 8 : rows <= 5 ? 4 : 2;
  return rows == 1 ? 4 : rows <= 3 ? 2 : 1;
}
// Pairs of V columns (32 dimensions) computed at once.
constexpr int ValuePairs(int rows) {
  if (OCTAVO_SIMD_AVX512) return rows <= 3 ? 4 : rows <= 6 ? 2 : 1;
  return rows == 1 ? 2 : 1;
}

OCTAVO_SIMD_INLINE int Least(int a, int b) { return a < b ? a : b; }
OCTAVO_SIMD_INLINE int Most(int a, int b) { return a > b ? a : b; }
OCTAVO_SIMD_INLINE void Prefetch(const std::byte* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
}

template <int kValue>
struct Count {
  static constexpr int value = kValue;
};

// Where the K and V of one window lie.
struct WindowPointers {
  const std::byte* key[kWindowGroups];    // 16 positions, transposed
  const std::byte* value[kWindowHalves];  // 8 rows of V
  // Of int8: the fp16 scales of 8 tokens.
  const std::byte* key_scale[kWindowHalves];
  const std::byte* value_scale[kWindowHalves];
};

// Scores of kGroups x 16 positions. q: [head_dim, kRows]. `scale`: of the tokens, where the element
// has scales. `fetch`: V of the same positions, to prefetch; or nullptr.
template <KvElement kElement, int kRows, int kGroups>
OCTAVO_SIMD_INLINE void ScoreTile(const std::byte* const* key, const std::byte* const* scale,
                                  const float* q, int head_dim, const std::byte* const* fetch,
                                  float* scores) {
  using E = Element<kElement>;
  Vec sum[kRows][kGroups];
  OCTAVO_UNROLL for (int r = 0; r < kRows; ++r) OCTAVO_UNROLL for (int g = 0; g < kGroups; ++g)
      sum[r][g] = Zero();
  for (int pair = 0; pair < head_dim / 2; ++pair) {
    // The window's V, a line per group and step (two for fp32, half a line for 8 bits), while its
    // K runs.
    if (fetch != nullptr) {
      OCTAVO_UNROLL for (int g = 0; g < kGroups; ++g) {
        if constexpr (E::kBytes == 4) {
          Prefetch(fetch[2 * g] + 64 * pair);
          Prefetch(fetch[2 * g + 1] + 64 * pair);
        } else if constexpr (E::kBytes == 1) {
          if ((pair & 1) == 0) Prefetch(fetch[2 * g + (pair >> 1 & 1)] + 64 * (pair >> 2));
        } else {
          Prefetch(fetch[2 * g + (pair & 1)] + 64 * (pair >> 1));
        }
      }
    }
    Vec k[kGroups];
    OCTAVO_UNROLL for (int g = 0; g < kGroups; ++g) k[g] = E::template Key<false>(key[g], pair);
    OCTAVO_UNROLL for (int r = 0; r < kRows; ++r) {
      const Vec x = Set1(q[2 * pair * kRows + r]);
      OCTAVO_UNROLL for (int g = 0; g < kGroups; ++g) sum[r][g] = Fma(x, k[g], sum[r][g]);
    }
    OCTAVO_UNROLL for (int g = 0; g < kGroups; ++g) k[g] = E::template Key<true>(key[g], pair);
    OCTAVO_UNROLL for (int r = 0; r < kRows; ++r) {
      const Vec x = Set1(q[(2 * pair + 1) * kRows + r]);
      OCTAVO_UNROLL for (int g = 0; g < kGroups; ++g) sum[r][g] = Fma(x, k[g], sum[r][g]);
    }
  }
  if constexpr (E::kScaled) {
    OCTAVO_UNROLL for (int g = 0; g < kGroups; ++g) {
      const Vec s = LoadHalves(scale[2 * g], scale[2 * g + 1]);
      OCTAVO_UNROLL for (int r = 0; r < kRows; ++r) sum[r][g] = Mul(sum[r][g], s);
    }
  }
  OCTAVO_UNROLL for (int r = 0; r < kRows; ++r) OCTAVO_UNROLL for (int g = 0; g < kGroups; ++g)
      Store(scores + r * kAttentionWindow + g * kLanes, sum[r][g]);
}

template <KvElement kElement, int kRows>
void ScoreUnit(const WindowPointers& window, int begin_group, int end_group, const float* q,
               int head_dim, bool fetch_values, float* scores) {
  constexpr int kGroups = ScoreGroups(kRows);
  const auto fetch = [&](int g) { return fetch_values ? window.value + 2 * g : nullptr; };
  int g = begin_group;
  for (; g + kGroups <= end_group; g += kGroups)
    ScoreTile<kElement, kRows, kGroups>(window.key + g, window.key_scale + 2 * g, q, head_dim,
                                        fetch(g), scores + g * kLanes);
  for (; g < end_group; ++g)
    ScoreTile<kElement, kRows, 1>(window.key + g, window.key_scale + 2 * g, q, head_dim, fetch(g),
                                  scores + g * kLanes);
}

// p of groups [begin_group, end_group) times the scales of the tokens' V, for `rows` rows.
OCTAVO_SIMD_INLINE void ScaleProbabilities(const WindowPointers& window, float factor, int rows,
                                           int begin_group, int end_group, float* p) {
  for (int g = begin_group; g < end_group; ++g) {
    const Vec scale =
        Mul(LoadHalves(window.value_scale[2 * g], window.value_scale[2 * g + 1]), Set1(factor));
    for (int r = 0; r < rows; ++r) {
      float* lanes = p + r * kAttentionWindow + g * kLanes;
      Store(lanes, Mul(Load(lanes), scale));
    }
  }
}

// acc = acc * correction + P V over positions [begin, end) of the window, kPairs x 32 dimensions.
// `fetch`: what to prefetch beside each 8 positions, row_bytes per position; may hold nullptrs.
template <KvElement kElement, int kRows, int kPairs>
OCTAVO_SIMD_INLINE void ValueTile(const std::byte* const* value, int begin, int end, int first_pair,
                                  int row_bytes, const float* p, const float* correction,
                                  const std::byte* const* fetch, float* acc, int acc_stride) {
  using E = Element<kElement>;
  constexpr int kColumns = 2 * kPairs;
  Vec sum[kRows][kColumns];
  OCTAVO_UNROLL for (int r = 0; r < kRows; ++r) {
    const Vec c = Set1(correction[r]);
    OCTAVO_UNROLL for (int i = 0; i < kColumns; ++i) sum[r][i] =
        Mul(Load(acc + r * acc_stride + i * kLanes), c);
  }
  for (int position = begin; position < end;) {
    const int half = position / kHalf;
    const int stop = Least(end, (half + 1) * kHalf);
    const std::byte* ahead = fetch == nullptr ? nullptr : fetch[half];
    for (; position < stop; ++position) {
      const std::byte* row = value[half] + position % kHalf * row_bytes;
      if (ahead != nullptr)
        for (int byte = 0; byte < row_bytes; byte += 64)
          Prefetch(ahead + position % kHalf * row_bytes + byte);
      OCTAVO_UNROLL for (int i = 0; i < kPairs; ++i) {
        Vec low, high;
        E::ValuePair(row, first_pair + i, low, high);
        OCTAVO_UNROLL for (int r = 0; r < kRows; ++r) {
          const Vec w = Set1(p[r * kAttentionWindow + position]);
          sum[r][2 * i] = Fma(w, low, sum[r][2 * i]);
          sum[r][2 * i + 1] = Fma(w, high, sum[r][2 * i + 1]);
        }
      }
    }
  }
  OCTAVO_UNROLL for (int r = 0; r < kRows; ++r) OCTAVO_UNROLL for (int i = 0; i < kColumns; ++i)
      Store(acc + r * acc_stride + i * kLanes, sum[r][i]);
}

// The same for what head_dim % 32 leaves: 16 or 8 dimensions.
template <KvElement kElement, int kRows, bool kSixteen>
OCTAVO_SIMD_INLINE void ValueTail(const std::byte* const* value, int begin, int end, int dimension,
                                  int row_bytes, const float* p, const float* correction,
                                  float* acc, int acc_stride) {
  using E = Element<kElement>;
  Vec sum[kRows];
  OCTAVO_UNROLL for (int r = 0; r < kRows; ++r) sum[r] =
      Mul(Load(acc + r * acc_stride), Set1(correction[r]));
  for (int position = begin; position < end; ++position) {
    const std::byte* row = value[position / kHalf] + position % kHalf * row_bytes;
    const Vec v = kSixteen ? E::Value16(row, dimension) : E::Value8(row, dimension);
    OCTAVO_UNROLL for (int r = 0; r < kRows; ++r) sum[r] =
        Fma(Set1(p[r * kAttentionWindow + position]), v, sum[r]);
  }
  OCTAVO_UNROLL for (int r = 0; r < kRows; ++r) Store(acc + r * acc_stride, sum[r]);
}

template <KvElement kElement, int kRows>
void ValueUnit(const WindowPointers& window, int begin, int end, int head_dim, const float* p,
               const float* correction, const std::byte* const* fetch, float* acc, int acc_stride) {
  if constexpr (kRows > kValueRows) {
    ValueUnit<kElement, kValueRows>(window, begin, end, head_dim, p, correction, fetch, acc,
                                    acc_stride);
    ValueUnit<kElement, kRows - kValueRows>(
        window, begin, end, head_dim, p + kValueRows * kAttentionWindow, correction + kValueRows,
        nullptr, acc + kValueRows * acc_stride, acc_stride);
  } else {
    constexpr int kPairs = ValuePairs(kRows);
    const int row_bytes = head_dim * Element<kElement>::kBytes;
    const int pairs = head_dim / 32;
    int pair = 0;
    const auto run = [&](auto count) {
      constexpr int kCount = decltype(count)::value;
      for (; pair + kCount <= pairs; pair += kCount) {
        ValueTile<kElement, kRows, kCount>(window.value, begin, end, pair, row_bytes, p, correction,
                                           fetch, acc + 32 * pair, acc_stride);
        fetch = nullptr;
      }
    };
    run(Count<kPairs>{});
    if constexpr (kPairs > 2) run(Count<2>{});
    if constexpr (kPairs > 1) run(Count<1>{});
    int d = 32 * pairs;
    if (head_dim - d >= 16) {
      ValueTail<kElement, kRows, true>(window.value, begin, end, d, row_bytes, p, correction,
                                       acc + d, acc_stride);
      d += 16;
    }
    if (head_dim - d >= 8)
      ValueTail<kElement, kRows, false>(window.value, begin, end, d, row_bytes, p, correction,
                                        acc + d, acc_stride);
  }
}

// Calls body(Count<rows>) for 1 <= rows <= kUnitRows.
template <int kRows = 1, typename Body>
OCTAVO_SIMD_INLINE void ForRows(int rows, const Body& body) {
  if (rows == kRows) return body(Count<kRows>{});
  if constexpr (kRows < kUnitRows) ForRows<kRows + 1>(rows, body);
}

template <KvElement kElement>
void ScoreRows(int rows, const WindowPointers& window, int begin_group, int end_group,
               const float* q, int head_dim, bool fetch_values, float* scores) {
  ForRows(rows, [&](auto count) {
    ScoreUnit<kElement, decltype(count)::value>(window, begin_group, end_group, q, head_dim,
                                                fetch_values, scores);
  });
}

template <KvElement kElement>
void ValueRows(int rows, const WindowPointers& window, int begin, int end, int head_dim,
               const float* p, const float* correction, const std::byte* const* fetch, float* acc,
               int acc_stride) {
  ForRows(rows, [&](auto count) {
    ValueUnit<kElement, decltype(count)::value>(window, begin, end, head_dim, p, correction, fetch,
                                                acc, acc_stride);
  });
}

}  // namespace OCTAVO_SIMD
}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_ATTENTION_PRODUCTS_H_
