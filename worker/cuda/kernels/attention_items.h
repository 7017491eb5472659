// Work items of the attention kernels: built on the host by work_list.h, read from device memory.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_ATTENTION_ITEMS_H_
#define OCTAVO_WORKER_CUDA_KERNELS_ATTENTION_ITEMS_H_

#include <cstdint>

namespace octavo::cuda {

// Positions are handled in tiles of 16, the M of mma.m16n8k16, counted from position 0.
inline constexpr int32_t kTileTokens = 16;

// One row of q, all its query heads in turn, over a run of tiles of its sequence; or the same of
// several rows whose sequences begin with the same blocks, over tiles that all of them see whole.
struct alignas(16) DecodeItem {
  int32_t row = 0;            // of q and out; of a shared item: its first one among the SharedRows
  int32_t table_begin = 0;    // the sequence's first entry in the block tables
  int32_t length = 0;         // the row sees positions [length - window, length); 0: none
  int32_t begin_tile = 0;     // [begin_tile, end_tile)
  int32_t end_tile = 0;       //
  int32_t split = 0;          // number of this item among the row's, or among each shared row's
  int32_t num_splits = 1;     // the last to arrive merges them in order; not of a shared item
  int32_t first_partial = 0;  // where split 0 leaves its partial result; not of a shared item
  int32_t num_shared = 0;     // rows of a shared item; 0: one row
  int32_t unused[3] = {};
};
static_assert(sizeof(DecodeItem) == 48);

// A row whose first splits are shared items; its tail is an item of its own.
struct alignas(16) SharedRow {
  int32_t row = 0;            // of q and out
  int32_t num_splits = 0;     // of the row, those of shared items included
  int32_t first_partial = 0;  // where split 0 leaves its partial result
  int32_t unused = 0;
};
static_assert(sizeof(SharedRow) == 16);

// Rows of a chunk's packed rows: packed row i is query head i % group of the chunk's token
// i / group, group being the query heads of one KV head. An item covers kPackedRows of them.
inline constexpr int32_t kPackedRows = 64;
struct alignas(16) PrefillItem {
  int32_t first_row = 0;       // of q and out: the chunk's first token
  int32_t num_rows = 0;        // tokens of the chunk
  int32_t context_length = 0;  // position of the chunk's first token
  int32_t table_begin = 0;     // the sequence's first entry in the block tables
  int32_t first_packed_row = 0;
  int32_t begin_position = 0;  // some row of the item sees positions [begin_position,
  int32_t end_position = 0;    // end_position)
  int32_t unused = 0;
};
static_assert(sizeof(PrefillItem) == 32);

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_ATTENTION_ITEMS_H_
