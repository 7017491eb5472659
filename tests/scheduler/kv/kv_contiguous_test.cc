// Contiguous runs: first fit, against a twin that tries every address.
#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/kv/kv_manager.h"

namespace octavo {
namespace {

constexpr int64_t kBlocks = 24;
constexpr int32_t kBlock = 4;  // tokens

std::vector<BlockId> RunOf(BlockId first, int64_t count) {
  std::vector<BlockId> blocks;
  for (int64_t i = 0; i < count; ++i) blocks.push_back(first + static_cast<BlockId>(i));
  return blocks;
}

TEST(KvManagerRun, TakesTheLowestRunThatIsLongEnough) {
  KvManager kv(10, kBlock);
  std::array<BlockTable, 5> tables;
  for (BlockTable& table : tables) ASSERT_TRUE(kv.ReserveRun(&table, 2 * kBlock));
  kv.Release(&tables[1], 0);  // 3 and 4
  kv.Release(&tables[3], 0);  // 7 and 8
  BlockTable one;
  ASSERT_TRUE(kv.ReserveRun(&one, 1));
  EXPECT_EQ(one.blocks(), RunOf(3, 1));
  BlockTable two;
  ASSERT_TRUE(kv.ReserveRun(&two, kBlock + 1));
  EXPECT_EQ(two.blocks(), RunOf(7, 2));
}

TEST(KvManagerRun, EnoughFreeBlocksThatLieApartAreNoRun) {
  KvManager kv(6, kBlock);
  std::array<BlockTable, 3> tables;
  for (BlockTable& table : tables) ASSERT_TRUE(kv.ReserveRun(&table, 2 * kBlock));
  kv.Release(&tables[0], 0);
  kv.Release(&tables[2], 0);
  EXPECT_EQ(kv.num_free(), 4);
  BlockTable table;
  EXPECT_FALSE(kv.CanReserveRun(3 * kBlock));
  EXPECT_FALSE(kv.ReserveRun(&table, 3 * kBlock));
  EXPECT_TRUE(table.empty());
  kv.Release(&tables[1], 0);
  EXPECT_TRUE(kv.CanReserveRun(6 * kBlock));
}

TEST(KvManagerRun, BlocksThatAStepInFlightNamesAreNotPartOfARun) {
  KvManager kv(4, kBlock);
  BlockTable table;
  ASSERT_TRUE(kv.ReserveRun(&table, 4 * kBlock));
  kv.Release(&table, /*last_step=*/1);
  EXPECT_FALSE(kv.CanReserveRun(1));
  kv.CommitStep(1);
  EXPECT_TRUE(kv.CanReserveRun(4 * kBlock));
}

struct Holder {
  BlockTable table;
  std::vector<BlockId> expected;
};

TEST(KvManagerRun, AgreesWithANaiveTwinOnRandomOperations) {
  int64_t fragmented = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto draw = [&random](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    KvManager kv(kBlocks, kBlock);
    std::array<bool, kBlocks + 1> lent{};
    std::vector<Holder> holders;
    StepId step = 0;
    std::vector<std::pair<StepId, std::vector<BlockId>>> deferred;
    for (int i = 0; i < 500; ++i) {
      const int64_t tokens = draw(1, 9 * kBlock);
      const int64_t count = (tokens + kBlock - 1) / kBlock;
      const int64_t choice = draw(0, 4);
      if (choice <= 1) {
        std::optional<BlockId> first;
        for (BlockId at = 1; at + count - 1 <= kBlocks && !first.has_value(); ++at) {
          const auto begin = lent.begin() + at;
          if (std::none_of(begin, begin + count, [](bool taken) { return taken; })) first = at;
        }
        const bool enough = std::count(lent.begin() + 1, lent.end(), false) >= count;
        fragmented += enough && !first.has_value() ? 1 : 0;
        Holder holder;
        ASSERT_EQ(kv.CanReserveRun(tokens), first.has_value());
        ASSERT_EQ(kv.ReserveRun(&holder.table, tokens), first.has_value());
        if (!first.has_value()) continue;
        holder.expected = RunOf(*first, count);
        for (const BlockId block : holder.expected) lent[static_cast<size_t>(block)] = true;
        holders.push_back(std::move(holder));
      } else if (choice <= 3 && !holders.empty()) {
        const auto at = holders.begin() + draw(0, static_cast<int64_t>(holders.size()) - 1);
        const StepId last = step + static_cast<StepId>(draw(0, 1));
        kv.Release(&at->table, last);
        deferred.emplace_back(last, std::move(at->expected));
        holders.erase(at);
      } else {
        kv.CommitStep(++step);
      }
      for (const auto& [last, blocks] : deferred) {
        if (last > step) continue;
        for (const BlockId block : blocks) lent[static_cast<size_t>(block)] = false;
      }
      std::erase_if(deferred, [step](const auto& entry) { return entry.first <= step; });
      ASSERT_EQ(kv.num_free(), std::count(lent.begin() + 1, lent.end(), false));
      std::vector<const BlockTable*> tables;
      for (const Holder& holder : holders) {
        ASSERT_EQ(holder.table.blocks(), holder.expected);
        tables.push_back(&holder.table);
      }
      kv.CheckInvariants(tables);
    }
  }
  EXPECT_GT(fragmented, 100) << "the operations must go where the trouble is";
}

}  // namespace
}  // namespace octavo
