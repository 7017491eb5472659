#include "common/kv_groups.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::ElementsAre;

TEST(GroupLayers, OneWindowIsOneGroup) {
  const KvGroups all = GroupLayers(3, {});
  EXPECT_EQ(all.layers_per_block, 3);
  EXPECT_THAT(all.groups, ElementsAre(KvGroup{0, 3}));
  EXPECT_THAT(all.places, ElementsAre(LayerPlace{0, 0}, LayerPlace{0, 1}, LayerPlace{0, 2}));
  EXPECT_EQ(GroupLayers(3, {0, 0, 0}), all);
  EXPECT_THAT(GroupLayers(2, {9, 9}).groups, ElementsAre(KvGroup{9, 2}));
}

TEST(GroupLayers, CutsTheMoreNumerousKind) {
  const KvGroups groups = GroupLayers(6, {4, 4, 0, 4, 4, 0});
  EXPECT_EQ(groups.layers_per_block, 2);
  EXPECT_THAT(groups.groups, ElementsAre(KvGroup{0, 2}, KvGroup{4, 2}, KvGroup{4, 2}));
  EXPECT_THAT(groups.places, ElementsAre(LayerPlace{1, 0}, LayerPlace{1, 1}, LayerPlace{0, 0},
                                         LayerPlace{2, 0}, LayerPlace{2, 1}, LayerPlace{0, 1}));
}

TEST(GroupLayers, WiderWindowsComeFirst) {
  EXPECT_THAT(GroupLayers(3, {2, 8, 0}).groups,
              ElementsAre(KvGroup{0, 1}, KvGroup{8, 1}, KvGroup{2, 1}));
}

TEST(GroupLayers, LeavesAtMostATwelfthOfEachKindEmpty) {
  for (int32_t layers = 1; layers <= 96; ++layers) {
    for (int32_t period = 1; period <= 12; ++period) {
      std::vector<int32_t> windows(static_cast<size_t>(layers), 512);
      for (int32_t i = period - 1; i < layers; i += period) windows[static_cast<size_t>(i)] = 0;
      const KvGroups groups = GroupLayers(layers, windows);
      int32_t held = 0;
      int32_t slots[2] = {0, 0};
      int32_t kind_layers[2] = {0, 0};
      for (const KvGroup& group : groups.groups) {
        held += group.num_layers;
        slots[group.window > 0] += groups.layers_per_block;
        kind_layers[group.window > 0] += group.num_layers;
        EXPECT_LE(group.num_layers, groups.layers_per_block);
      }
      EXPECT_EQ(held, layers);
      for (const int kind : {0, 1}) EXPECT_LE(12 * (slots[kind] - kind_layers[kind]), slots[kind]);
      for (int32_t layer = 0; layer < layers; ++layer) {
        const LayerPlace place = groups.places[static_cast<size_t>(layer)];
        EXPECT_EQ(groups.groups[static_cast<size_t>(place.group)].window,
                  windows[static_cast<size_t>(layer)]);
        EXPECT_LT(place.index, groups.groups[static_cast<size_t>(place.group)].num_layers);
      }
    }
  }
}

TEST(WindowBlocks, CoverTheWindowWhereverItLies) {
  for (const int32_t block : {1, 3, 16}) {
    for (int32_t window = 1; window <= 40; ++window) {
      int64_t most = 0;
      for (int32_t first = 0; first < block; ++first) {
        most = std::max<int64_t>(most, (first + window) / block - first / block + 1);
      }
      EXPECT_EQ(WindowBlocks(window, block), most) << window << " of " << block;
      EXPECT_EQ(BlocksKept(1000, window, block), most);
      EXPECT_EQ(BlocksKept(1, window, block), 1);
    }
  }
}

}  // namespace
}  // namespace octavo
