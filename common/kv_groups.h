// Which layers of a model share a block of the KV cache, and for how long a sequence needs it.
#ifndef OCTAVO_COMMON_KV_GROUPS_H_
#define OCTAVO_COMMON_KV_GROUPS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace octavo {

// Layers with one window, each sequence of which has a block table of its own (kv.7).
struct KvGroup {
  int32_t window = 0;      // tokens that a position sees, itself included; 0: all before it
  int32_t num_layers = 0;  // at most layers_per_block; the rest of its blocks is padding
  friend bool operator==(const KvGroup&, const KvGroup&) = default;
};

// Where a layer's keys and values are.
struct LayerPlace {
  int32_t group = 0;
  int32_t index = 0;  // inside a block of the group
  friend bool operator==(const LayerPlace&, const LayerPlace&) = default;
};

// All groups have blocks of one size, `layers_per_block` layers, so that one pool serves them all.
// As few groups as leave at most a twelfth of the blocks of each window empty, and then as little
// padding as that many groups allow. A model with one window has one group of all its layers.
struct KvGroups {
  int32_t layers_per_block = 0;
  std::vector<KvGroup> groups;     // by window: those that see all first, then the widest
  std::vector<LayerPlace> places;  // [num_layers]
  friend bool operator==(const KvGroups&, const KvGroups&) = default;
};

// `layer_windows`: [num_layers], or empty when every layer sees all. REQUIRES: num_layers > 0, no
// negative window.
KvGroups GroupLayers(int32_t num_layers, const std::vector<int32_t>& layer_windows);

// In tokens, by group; 0: sees all.
std::vector<int32_t> WindowsOf(const std::vector<KvGroup>& groups);

// The first block that a group with `window` needs to compute the token at `position`.
constexpr int64_t FirstBlockSeen(int64_t position, int32_t window, int32_t block_size) {
  return window == 0 ? 0 : std::max<int64_t>(0, position - window + 1) / block_size;
}

// Blocks that a window keeps while its sequence decodes, with two steps in flight, wherever the
// window lies: those that intersect window + 1 consecutive positions.
constexpr int64_t WindowBlocks(int32_t window, int32_t block_size) {
  return (int64_t{window} - 1) / block_size + 2;
}

// Most blocks of a group with `window` that a sequence of `blocks` blocks holds while it decodes.
constexpr int64_t BlocksKept(int64_t blocks, int32_t window, int32_t block_size) {
  return window == 0 ? blocks : std::min(blocks, WindowBlocks(window, block_size));
}

}  // namespace octavo

#endif  // OCTAVO_COMMON_KV_GROUPS_H_
