// The attention kernel, compiled once per instruction set (attention_avx2.cc, attention_avx512.cc).
// All rows of a tile pass over a window's K and V while it is in the nearest caches.
#ifndef OCTAVO_WORKER_CPU_ATTENTION_KERNEL_IMPL_H_
#define OCTAVO_WORKER_CPU_ATTENTION_KERNEL_IMPL_H_

#include "worker/cpu/attention_kernel.h"
#include "worker/cpu/attention_products.h"
#include "worker/cpu/attention_softmax.h"
#include "worker/cpu/simd16.h"
#include "worker/cpu/simd_tanh.h"

namespace octavo {
namespace OCTAVO_SIMD {

// Consecutive rows of a tile that go through the registers together.
struct Unit {
  int first_row;
  int rows;
  int first_position;  // of its first and last query
  int last_position;
  // What some row of it sees of the current window: positions from the window's start, and the
  // groups that hold them. begin >= end: nothing.
  int begin, end;
  int begin_group, end_group;
};

// Working memory and shape of one tile.
struct TileState {
  int rows;
  int acc_stride;       // head_dim rounded up to whole vectors
  float* q;             // per unit [head_dim, rows], scaled
  float* acc;           // [rows, acc_stride]
  float* scores;        // [rows, kAttentionWindow]
  std::byte* repacked;  // [kWindowGroups] key groups, for blocks of 8 tokens
  SoftmaxState softmax;
  Unit units[kMaxTileRows];
  int num_units;
};

OCTAVO_SIMD_INLINE int FirstVisible(const AttentionTile& tile, int position) {
  const int first = position - tile.sliding_window + 1;
  return tile.sliding_window > 0 && first > 0 ? first : 0;
}

OCTAVO_SIMD_INLINE const std::byte* Piece(const AttentionTile& tile, int position) {
  const int entry = Least(position / tile.block_size, tile.table_length - 1);
  return tile.piece + tile.table[entry] * tile.block_stride;
}

inline TileState Begin(const AttentionTile& tile, float factor) {
  TileState state;
  state.rows = tile.num_queries * tile.num_heads;
  state.acc_stride = (tile.head_dim + kLanes - 1) / kLanes * kLanes;
  state.q = tile.scratch;
  state.acc = state.q + state.rows * tile.head_dim;
  state.scores = state.acc + state.rows * state.acc_stride;
  state.repacked = reinterpret_cast<std::byte*>(state.scores + state.rows * kAttentionWindow);
  for (int i = 0; i < state.rows * state.acc_stride; i += kLanes) Store(state.acc + i, Zero());
  for (int r = 0; r < state.rows; ++r) {
    Store(state.softmax.sums[r], Zero());
    state.softmax.max[r] = kMinusInfinity;
  }
  const float q_scale = tile.q_scale * factor;
  state.num_units = (state.rows + kUnitRows - 1) / kUnitRows;
  for (int u = 0, row = 0; u < state.num_units; ++u) {
    const int rows = state.rows / state.num_units + (u < state.rows % state.num_units ? 1 : 0);
    state.units[u] = {row,
                      rows,
                      tile.first_position + row / tile.num_heads,
                      tile.first_position + (row + rows - 1) / tile.num_heads,
                      0,
                      0,
                      0,
                      0};
    for (int r = 0; r < rows; ++r) {
      const float* q = tile.q + (row + r) / tile.num_heads * tile.q_stride +
                       (row + r) % tile.num_heads * static_cast<int64_t>(tile.head_dim);
      float* scaled = state.q + row * tile.head_dim + r;
      for (int d = 0; d < tile.head_dim; ++d) scaled[d * rows] = q[d] * q_scale;
    }
    row += rows;
  }
  return state;
}

// Groups of blocks of 8 tokens are joined to groups of 16 positions. A second half that the table
// does not reach repeats the first: no row sees it.
template <KvElement kElement>
const std::byte* JoinKeys(const AttentionTile& tile, int position, std::byte* joined) {
  constexpr int kRowBytes = kHalf * Element<kElement>::kBytes * Element<kElement>::kKeyStep;
  const std::byte* low = Piece(tile, position);
  const std::byte* high = Piece(tile, position + kHalf);
  for (int row = 0; row < tile.head_dim / Element<kElement>::kKeyStep; ++row) {
    __builtin_memcpy(joined + row * 2 * kRowBytes, low + row * kRowBytes, kRowBytes);
    __builtin_memcpy(joined + row * 2 * kRowBytes + kRowBytes, high + row * kRowBytes, kRowBytes);
  }
  return joined;
}

// Where a piece keeps what a position of the window needs (kv_layout.h).
template <KvElement kElement>
struct PieceLayout {
  explicit PieceLayout(const AttentionTile& tile)
      : row_bytes(tile.head_dim * Element<kElement>::kBytes),
        values(static_cast<int64_t>(tile.block_size) * row_bytes),
        key_scales(2 * values),
        value_scales(key_scales + 2 * tile.block_size) {}
  int row_bytes;  // of one token's K or V
  int64_t values, key_scales, value_scales;
};

// Pointers for groups [begin_group, end_group) of the window at `start`.
template <KvElement kElement>
void Locate(const AttentionTile& tile, int start, int begin_group, int end_group,
            std::byte* repacked, WindowPointers& window) {
  const PieceLayout<kElement> layout(tile);
  for (int g = begin_group; g < end_group; ++g) {
    const int position = start + g * kLanes;
    for (int half = 0; half < 2; ++half) {
      const int first = position + half * kHalf;
      const int slot = first % tile.block_size;
      const std::byte* piece = Piece(tile, first);
      window.value[2 * g + half] = piece + layout.values + slot * layout.row_bytes;
      if constexpr (Element<kElement>::kScaled) {
        window.key_scale[2 * g + half] = piece + layout.key_scales + 2 * slot;
        window.value_scale[2 * g + half] = piece + layout.value_scales + 2 * slot;
      }
    }
    window.key[g] =
        tile.block_size < kLanes
            ? JoinKeys<kElement>(tile, position, repacked + g * kLanes * layout.row_bytes)
            : Piece(tile, position) + position % tile.block_size * layout.row_bytes;
  }
}

// Keys that the thread needs after this window: of the tile's next window or of its next tile.
// Their scales are fetched here, with those of V in the same lines.
template <KvElement kElement>
bool LocateAhead(const AttentionTile& tile, int start, int last_position,
                 const std::byte* ahead[kWindowHalves]) {
  const AttentionTile* source = &tile;
  int first = start + kAttentionWindow;
  if (first > last_position) {
    source = tile.next;
    if (source == nullptr) return false;
    first = FirstVisible(*source, source->first_position) / kAttentionWindow * kAttentionWindow;
  }
  const int end = source->first_position + source->num_queries;
  const PieceLayout<kElement> layout(*source);
  for (int half = 0; half < kWindowHalves; ++half) {
    const int position = first + half * kHalf;
    ahead[half] = nullptr;
    if (position >= end) continue;
    const int slot = position % source->block_size;
    const std::byte* piece = Piece(*source, position);
    ahead[half] = piece + slot * layout.row_bytes;
    if constexpr (Element<kElement>::kScaled) {
      Prefetch(piece + layout.key_scales + 2 * slot);
      if (source->block_size > kLanes) Prefetch(piece + layout.value_scales + 2 * slot);
    }
  }
  return true;
}

// Some groups of keys at a time go through all units while they are in the first-level cache.
template <KvElement kElement>
void ScoreWindow(const AttentionTile& tile, const WindowPointers& window, TileState& state) {
  const int step = state.num_units == 1 ? kWindowGroups : 4;
  for (int first = 0; first < kWindowGroups; first += step) {
    for (int u = 0; u < state.num_units; ++u) {
      const Unit& unit = state.units[u];
      const int begin = Most(unit.begin_group, first);
      const int end = Least(unit.end_group, first + step);
      if (unit.begin < unit.end && begin < end)
        ScoreRows<kElement>(unit.rows, window, begin, end, state.q + unit.first_row * tile.head_dim,
                            tile.head_dim, u == 0,
                            state.scores + unit.first_row * kAttentionWindow);
    }
  }
}

// s = cap tanh(s), s being q k scale / softcap until here.
inline void CapWindow(const AttentionTile& tile, TileState& state) {
  const Vec cap = Set1(tile.score_cap);
  for (int u = 0; u < state.num_units; ++u) {
    const Unit& unit = state.units[u];
    if (unit.begin >= unit.end) continue;
    for (int r = unit.first_row; r < unit.first_row + unit.rows; ++r) {
      float* const row = state.scores + r * kAttentionWindow;
      for (int i = unit.begin_group * kLanes; i < unit.end_group * kLanes; i += kLanes)
        Store(row + i, Mul(cap, Tanh(Load(row + i))));
    }
  }
}

inline void SoftmaxWindow(const AttentionTile& tile, int start, TileState& state) {
  for (int u = 0; u < state.num_units; ++u) {
    const Unit& unit = state.units[u];
    if (unit.begin >= unit.end) continue;
    RowSpan spans[kUnitRows];
    for (int r = 0; r < unit.rows; ++r) {
      const int position = tile.first_position + (unit.first_row + r) / tile.num_heads;
      spans[r] = {Most(FirstVisible(tile, position) - start, 0),
                  Least(position + 1 - start, kAttentionWindow)};
    }
    SoftmaxUnit(unit.first_row, unit.rows, spans, unit.begin_group, unit.end_group,
                state.scores + unit.first_row * kAttentionWindow, state.softmax);
  }
}

template <KvElement kElement>
void ValueWindow(const AttentionTile& tile, const WindowPointers& window,
                 const std::byte* const* fetch, TileState& state) {
  for (int u = 0; u < state.num_units; ++u) {
    const Unit& unit = state.units[u];
    if (unit.begin >= unit.end) continue;
    if constexpr (Element<kElement>::kScaled)
      ScaleProbabilities(window, 1 / Element<kElement>::kValueFactor, unit.rows, unit.begin_group,
                         unit.end_group, state.scores + unit.first_row * kAttentionWindow);
    ValueRows<kElement>(unit.rows, window, unit.begin, unit.end, tile.head_dim,
                        state.scores + unit.first_row * kAttentionWindow,
                        state.softmax.correction + unit.first_row, u == 0 ? fetch : nullptr,
                        state.acc + unit.first_row * state.acc_stride, state.acc_stride);
  }
}

template <KvElement kElement>
void Attend(const AttentionTile& tile) {
  TileState state = Begin(tile, Element<kElement>::kKeyFactor);
  const int last_position = tile.first_position + tile.num_queries - 1;
  const int first_window = FirstVisible(tile, tile.first_position) / kAttentionWindow;
  for (int start = first_window * kAttentionWindow; start <= last_position;
       start += kAttentionWindow) {
    // What some row of the tile sees, relative to the window.
    const int tile_begin = Most(FirstVisible(tile, tile.first_position) - start, 0);
    const int tile_end = Least(last_position + 1 - start, kAttentionWindow);
    WindowPointers window;
    Locate<kElement>(tile, start, tile_begin / kLanes, (tile_end + kLanes - 1) / kLanes,
                     state.repacked, window);
    const std::byte* ahead[kWindowHalves];
    const std::byte* const* fetch =
        LocateAhead<kElement>(tile, start, last_position, ahead) ? ahead : nullptr;
    for (int u = 0; u < state.num_units; ++u) {
      Unit& unit = state.units[u];
      unit.begin = Most(FirstVisible(tile, unit.first_position) - start, 0);
      unit.end = Least(unit.last_position + 1 - start, kAttentionWindow);
      unit.begin_group = unit.begin / kLanes;
      unit.end_group = (unit.end + kLanes - 1) / kLanes;
    }
    ScoreWindow<kElement>(tile, window, state);
    if (tile.score_cap > 0) CapWindow(tile, state);
    SoftmaxWindow(tile, start, state);
    ValueWindow<kElement>(tile, window, fetch, state);
  }
  for (int r = 0; r < state.rows; ++r) {
    const float inverse = Element<kElement>::kValueFactor / ReduceAdd(Load(state.softmax.sums[r]));
    float* out = tile.out + r / tile.num_heads * tile.out_stride +
                 r % tile.num_heads * static_cast<int64_t>(tile.head_dim);
    // + 0 turns -0 over: whether unseen positions were passed over must not show in a sign.
    for (int d = 0; d < tile.head_dim; ++d)
      out[d] = state.acc[r * state.acc_stride + d] * inverse + 0.0f;
  }
}

inline AttentionKernel KernelFor(KvElement element) {
  switch (element) {
    case KvElement::kFloat32:
      return Attend<KvElement::kFloat32>;
    case KvElement::kFloat16:
      return Attend<KvElement::kFloat16>;
    case KvElement::kBFloat16:
      return Attend<KvElement::kBFloat16>;
    case KvElement::kInt8:
      return Attend<KvElement::kInt8>;
    case KvElement::kFloat8E4M3:
      return Attend<KvElement::kFloat8E4M3>;
    case KvElement::kFloat8E5M2:
      return Attend<KvElement::kFloat8E5M2>;
  }
  return nullptr;
}

}  // namespace OCTAVO_SIMD
}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_ATTENTION_KERNEL_IMPL_H_
