// The attention kernel, compiled once per instruction set (attention_avx2.cc, attention_avx512.cc).
// All rows of a tile pass over a window's K and V while it is in the nearest caches.
#ifndef OCTAVO_WORKER_CPU_ATTENTION_KERNEL_IMPL_H_
#define OCTAVO_WORKER_CPU_ATTENTION_KERNEL_IMPL_H_

#include "worker/cpu/attention_kernel.h"
#include "worker/cpu/attention_products.h"
#include "worker/cpu/simd16.h"

namespace octavo {
namespace OCTAVO_SIMD {

inline constexpr float kMinusInfinity = -__builtin_inff();

// One row and window: scores become p, 0 where the row does not see. Returns the factor that turns
// earlier sums over to the new maximum.
OCTAVO_SIMD_INLINE float SoftmaxWindow(float* scores, int begin, int end, int begin_group,
                                       int end_group, float& max, float* sum) {
  if (begin >= end) {
    for (int g = begin_group; g < end_group; ++g) Store(scores + g * kLanes, Zero());
    return 1.0f;
  }
  Vec window_max = Set1(kMinusInfinity);
  for (int g = begin / kLanes; g * kLanes < end; ++g) {
    const Vec s = Load(scores + g * kLanes);
    const int first = Most(begin - g * kLanes, 0), last = Least(end - g * kLanes, kLanes);
    window_max = Max(window_max,
                     last - first == kLanes ? s : KeepLanes(s, first, last, Set1(kMinusInfinity)));
  }
  const float reduced = ReduceMax(window_max);
  const float new_max = reduced > max ? reduced : max;
  float correction[kLanes];
  Store(correction, Exp2(Set1(max - new_max)));
  Vec total = Mul(Load(sum), Set1(correction[0]));
  for (int g = begin_group; g < end_group; ++g) {
    const int first = Least(Most(begin - g * kLanes, 0), kLanes);
    const int last = Most(Least(end - g * kLanes, kLanes), 0);
    Vec p = Zero();
    if (first < last) {
      p = Exp2(Sub(Load(scores + g * kLanes), Set1(new_max)));
      if (last - first != kLanes) p = KeepLanes(p, first, last, Zero());
      total = Add(total, p);
    }
    Store(scores + g * kLanes, p);
  }
  Store(sum, total);
  max = new_max;
  return correction[0];
}

// Consecutive rows of a tile that go through the registers together.
struct Unit {
  int first_row;
  int rows;
  int first_position;  // of its first and last query
  int last_position;
};

// Working memory and shape of one tile.
struct TileState {
  int rows;
  int acc_stride;       // head_dim rounded up to whole vectors
  float* q;             // [rows, head_dim], scaled
  float* acc;           // [rows, acc_stride]
  float* scores;        // [rows, kAttentionWindow]
  float* sums;          // [rows, kLanes]
  std::byte* repacked;  // [kWindowGroups] key groups, for blocks of 8 tokens
  float max[kMaxTileRows];
  float correction[kMaxTileRows];
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

inline TileState Begin(const AttentionTile& tile) {
  TileState state;
  state.rows = tile.num_queries * tile.num_heads;
  state.acc_stride = (tile.head_dim + kLanes - 1) / kLanes * kLanes;
  state.q = tile.scratch;
  state.acc = state.q + state.rows * tile.head_dim;
  state.scores = state.acc + state.rows * state.acc_stride;
  state.sums = state.scores + state.rows * kAttentionWindow;
  state.repacked = reinterpret_cast<std::byte*>(state.sums + state.rows * kLanes);
  for (int r = 0; r < state.rows; ++r) {
    const float* q = tile.q + r / tile.num_heads * tile.q_stride +
                     r % tile.num_heads * static_cast<int64_t>(tile.head_dim);
    for (int d = 0; d < tile.head_dim; ++d) state.q[r * tile.head_dim + d] = q[d] * tile.q_scale;
    for (int d = 0; d < state.acc_stride; ++d) state.acc[r * state.acc_stride + d] = 0;
    Store(state.sums + r * kLanes, Zero());
    state.max[r] = kMinusInfinity;
  }
  state.num_units = (state.rows + kUnitRows - 1) / kUnitRows;
  for (int u = 0, row = 0; u < state.num_units; ++u) {
    const int rows = state.rows / state.num_units + (u < state.rows % state.num_units ? 1 : 0);
    state.units[u] = {row, rows, tile.first_position + row / tile.num_heads,
                      tile.first_position + (row + rows - 1) / tile.num_heads};
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

// Pointers for groups [begin_group, end_group) of the window at `start`.
template <KvElement kElement>
void Locate(const AttentionTile& tile, int start, int begin_group, int end_group,
            std::byte* repacked, WindowPointers& window) {
  const int row_bytes = tile.head_dim * Element<kElement>::kBytes;
  const int64_t values = static_cast<int64_t>(tile.block_size) * row_bytes;
  for (int g = begin_group; g < end_group; ++g) {
    const int position = start + g * kLanes;
    for (int half = 0; half < 2; ++half) {
      const int first = position + half * kHalf;
      window.value[2 * g + half] =
          Piece(tile, first) + values + first % tile.block_size * row_bytes;
    }
    window.key[g] = tile.block_size < kLanes
                        ? JoinKeys<kElement>(tile, position, repacked + g * kLanes * row_bytes)
                        : Piece(tile, position) + position % tile.block_size * row_bytes;
  }
}

// Keys that the thread needs after this window: of the tile's next window or of its next tile.
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
  const int row_bytes = source->head_dim * Element<kElement>::kBytes;
  for (int half = 0; half < kWindowHalves; ++half) {
    const int position = first + half * kHalf;
    ahead[half] = position < end
                      ? Piece(*source, position) + position % source->block_size * row_bytes
                      : nullptr;
  }
  return true;
}

template <KvElement kElement>
void Attend(const AttentionTile& tile) {
  TileState state = Begin(tile);
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
      const Unit& unit = state.units[u];
      const int begin = Most(FirstVisible(tile, unit.first_position) - start, 0);
      const int end = Least(unit.last_position + 1 - start, kAttentionWindow);
      if (begin >= end) continue;
      const int begin_group = begin / kLanes, end_group = (end + kLanes - 1) / kLanes;
      float* scores = state.scores + unit.first_row * kAttentionWindow;
      ScoreRows<kElement>(unit.rows, window, begin_group, end_group,
                          state.q + unit.first_row * tile.head_dim, tile.head_dim, u == 0, scores);
      for (int r = unit.first_row; r < unit.first_row + unit.rows; ++r) {
        const int position = tile.first_position + r / tile.num_heads;
        state.correction[r] = SoftmaxWindow(
            state.scores + r * kAttentionWindow, Most(FirstVisible(tile, position) - start, 0),
            Least(position + 1 - start, kAttentionWindow), begin_group, end_group, state.max[r],
            state.sums + r * kLanes);
      }
      ValueRows<kElement>(unit.rows, window, begin, end, tile.head_dim, scores,
                          state.correction + unit.first_row, u == 0 ? fetch : nullptr,
                          state.acc + unit.first_row * state.acc_stride, state.acc_stride);
    }
  }
  for (int r = 0; r < state.rows; ++r) {
    const float inverse = 1.0f / ReduceAdd(Load(state.sums + r * kLanes));
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
  }
  return nullptr;
}

}  // namespace OCTAVO_SIMD
}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_ATTENTION_KERNEL_IMPL_H_
