#include "common/kv_groups.h"

#include <limits>
#include <map>

namespace octavo {
namespace {

constexpr int32_t kMostPadding = 12;  // at most one slot for a layer in so many is empty

// Wider windows first; 0 sees all.
struct SeesMore {
  bool operator()(int32_t a, int32_t b) const {
    const auto width = [](int32_t w) { return w == 0 ? std::numeric_limits<int32_t>::max() : w; };
    return width(a) > width(b);
  }
};

int32_t GroupsOf(int32_t layers, int32_t per_block) { return (layers + per_block - 1) / per_block; }

}  // namespace

KvGroups GroupLayers(int32_t num_layers, const std::vector<int32_t>& layer_windows) {
  std::map<int32_t, std::vector<int32_t>, SeesMore> layers;  // by window
  for (int32_t layer = 0; layer < num_layers; ++layer) {
    layers[layer_windows.empty() ? 0 : layer_windows[static_cast<size_t>(layer)]].push_back(layer);
  }
  const auto fits = [&](int32_t per_block) {
    return std::all_of(layers.begin(), layers.end(), [per_block](const auto& kind) {
      const auto count = static_cast<int32_t>(kind.second.size());
      const int32_t slots = GroupsOf(count, per_block) * per_block;
      return (slots - count) * kMostPadding <= slots;
    });
  };
  const auto num_groups = [&](int32_t per_block) {
    int32_t groups = 0;
    for (const auto& [window, kind] : layers) {
      groups += GroupsOf(static_cast<int32_t>(kind.size()), per_block);
    }
    return groups;
  };
  KvGroups result;
  int32_t& per_block = result.layers_per_block = num_layers;
  while (!fits(per_block)) --per_block;
  // Smaller blocks, when they take no more groups.
  while (per_block > 1 && num_groups(per_block - 1) == num_groups(per_block)) --per_block;
  result.places.resize(static_cast<size_t>(num_layers));
  for (const auto& [window, kind] : layers) {
    const auto count = static_cast<int32_t>(kind.size());
    for (int32_t i = 0; i < count; ++i) {
      if (i % result.layers_per_block == 0) result.groups.push_back({.window = window});
      KvGroup& group = result.groups.back();
      result.places[static_cast<size_t>(kind[static_cast<size_t>(i)])] = {
          static_cast<int32_t>(result.groups.size()) - 1, group.num_layers++};
    }
  }
  return result;
}

std::vector<int32_t> WindowsOf(const std::vector<KvGroup>& groups) {
  std::vector<int32_t> windows;
  windows.reserve(groups.size());
  for (const KvGroup& group : groups) windows.push_back(group.window);
  return windows;
}

}  // namespace octavo
