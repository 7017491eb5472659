// KvManager against a naive twin: random operations, everything compared after each one. Seeds
// differ in the groups of layers that tables have blocks for (kv.7).
#include "tests/scheduler/kv/kv_twin.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/kv/kv_manager.h"

namespace octavo {
namespace {

constexpr int64_t kMostTokens = 14;

// Of each group of layers, in tokens; 0: sees all.
const std::vector<std::vector<int32_t>> kWindows = {{0}, {0, 4}, {5}, {0, 0, 2}, {0, 7, 1}, {9, 3}};

// The same operation on both; sequences are at the same index in both.
class Pair {
 public:
  Pair(uint64_t seed, const std::vector<int32_t>& windows)
      : random_(seed),
        kv_(kBlocks, kBlock, {.enabled = true, .key = "k"}, windows),
        twin_(windows) {}

  void Operate() {
    switch (Draw(0, 9)) {
      case 0:
      case 1:
        return Begin();
      case 2:
      case 3:
      case 4:
        return Write();
      case 5:
        return Publish();
      case 6:
        return Draw(0, 1) == 0 ? Fork() : Slide();
      case 7:
        return Draw(0, 2) == 0 ? Resume() : Release();
      case 8:
        return Draw(0, 1) == 0 ? Release() : CommitStep();
      default:
        if (Draw(0, 19) == 0) Flush();
        if (Draw(0, 39) == 0) Reset();
    }
  }

  void Compare() const {
    ASSERT_EQ(kv_.num_free(), twin_.num_free());
    ASSERT_EQ(kv_.num_unheld(), twin_.num_unheld());
    ASSERT_EQ(kv_.num_cached(), twin_.num_cached());
    ASSERT_EQ(kv_.num_saved(), twin_.num_saved());
    ASSERT_EQ(kv_.num_deferred(), twin_.num_deferred());
    const std::map<int64_t, bool> slots = twin_.Slots();
    ASSERT_EQ(kv_.held_slots(), static_cast<int64_t>(slots.size()));
    ASSERT_EQ(kv_.filled_slots(), std::count_if(slots.begin(), slots.end(),
                                                [](const auto& slot) { return slot.second; }));
    ASSERT_EQ(kv_.evictions(), twin_.evictions);
    ASSERT_EQ(kv_.copies_on_write(), copies_);
    std::vector<const BlockTable*> tables;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      ASSERT_EQ(sequences_[i]->table.blocks(), twin_.tables[i]->blocks) << "table " << i;
      ASSERT_EQ(sequences_[i]->table.promised(), twin_.tables[i]->promised) << "table " << i;
      tables.push_back(&sequences_[i]->table);
    }
    for (BlockId block = 1; block <= kBlocks; ++block) {
      ASSERT_EQ(kv_.ref_count(block), twin_.Holders(block)) << "block " << block;
    }
    kv_.CheckInvariants(tables);
  }

  uint64_t hits() const { return hits_; }
  uint64_t copies() const { return copies_; }
  uint64_t reused() const { return reused_; }
  uint64_t swapped() const { return swapped_; }
  uint64_t evictions() const { return twin_.evictions; }
  uint64_t slid() const { return slid_; }
  uint64_t chunks() const { return chunks_; }

 private:
  struct Sequence {
    BlockTable table;
    PrefixChain chain;
    Tokens tokens;
    Tokens coming;  // the rest of its prompt, whose blocks are promised
  };

  struct Retained {
    Tokens tokens;
    std::string salt;
    RetainedTable table;
  };

  int64_t Draw(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  // Few tokens, so that prefixes come again.
  TokenId DrawToken() { return static_cast<TokenId>(Draw(0, 5) == 0 ? 1 : 0); }
  size_t Pick() {
    return static_cast<size_t>(Draw(0, static_cast<int64_t>(sequences_.size()) - 1));
  }

  void Begin() {
    auto sequence = std::make_unique<Sequence>();
    auto table = std::make_unique<TwinTable>();
    table->salt = Draw(0, 3) == 0 ? "other" : "";
    table->generation = twin_.generation;
    for (int64_t i = Draw(1, kMostTokens); i > 0; --i) sequence->tokens.push_back(DrawToken());
    const size_t most = (sequence->tokens.size() - 1) / kBlock;
    kv_.EnableCaching(&sequence->chain, "", table->salt);
    const int64_t found = kv_.Match(&sequence->chain, sequence->tokens, static_cast<int64_t>(most));
    table->blocks = twin_.Match(table->salt, sequence->tokens, most, &table->tail);
    ASSERT_EQ(found, static_cast<int64_t>(table->blocks.size() / twin_.groups()));
    const int64_t length = static_cast<int64_t>(sequence->tokens.size());
    const int64_t rows = kv_.BlocksFor(length) - found;
    const auto begun = std::span(sequence->chain.found).first(static_cast<size_t>(found));
    if (rows * kv_.num_groups() + kv_.NumFree(begun, 0) + kv_.NumFreeInWindows(begun) >
        kv_.num_free()) {
      return;
    }
    hits_ += static_cast<uint64_t>(found);
    table->published = static_cast<size_t>(found);
    table->slid = found * kBlock;
    kv_.Adopt(&sequence->table, begun);
    for (const BlockId block : table->blocks) twin_.Hold(block);
    kv_.BeginChain(&sequence->chain, found);
    if (kv_.num_windowed() == 0 && Draw(0, 1) == 0) {
      ASSERT_TRUE(kv_.Promise(&sequence->table, length));
      table->promised = rows;
      const auto computed = sequence->tokens.begin() + found * kBlock;
      sequence->coming.assign(computed, sequence->tokens.end());
      sequence->tokens.erase(computed, sequence->tokens.end());
      table->tokens = sequence->tokens.size();
      sequences_.push_back(std::move(sequence));
      twin_.tables.push_back(std::move(table));
      return;
    }
    std::vector<BlockId> added;
    ASSERT_EQ(kv_.BlocksMissing(sequence->table, length), rows * kv_.num_keeping());
    ASSERT_TRUE(kv_.Reserve(&sequence->table, length, &added));
    std::vector<BlockReplacement> lent;
    BlockTable spare;
    ASSERT_EQ(kv_.WindowsMissing(sequence->table, table->slid, length), rows * kv_.num_windowed());
    ASSERT_TRUE(kv_.ReserveWindows(&sequence->table, table->slid, length, &spare, &lent));
    kv_.CheckWindows(sequence->table, length);
    const size_t first = table->blocks.size();
    table->blocks.resize(first + static_cast<size_t>(rows) * twin_.groups());
    for (const bool windowed : {false, true}) {
      for (size_t i = first; i < table->blocks.size(); ++i) {
        if (twin_.windowed(i % twin_.groups()) == windowed) table->blocks[i] = twin_.TakeOne();
      }
    }
    kv_.Fill(sequence->table, found * kBlock, static_cast<int64_t>(sequence->tokens.size()));
    table->tokens = sequence->tokens.size();
    sequences_.push_back(std::move(sequence));
    twin_.tables.push_back(std::move(table));
  }

  // The next chunk of a prompt takes its blocks.
  void TakePromised(Sequence& sequence, TwinTable& table) {
    const auto chunk = sequence.coming.begin() + Draw(1, std::ssize(sequence.coming));
    const int64_t from = std::ssize(sequence.tokens);
    sequence.tokens.insert(sequence.tokens.end(), sequence.coming.begin(), chunk);
    sequence.coming.erase(sequence.coming.begin(), chunk);
    const int64_t to = std::ssize(sequence.tokens);
    const size_t held = table.blocks.size();
    std::vector<BlockId> added;
    kv_.TakePromised(&sequence.table, to, &added);
    while (std::ssize(table.blocks) < kv_.BlocksFor(to)) {
      table.blocks.push_back(twin_.TakeOne());
      --table.promised;
    }
    ASSERT_EQ(added, std::vector<BlockId>(table.blocks.begin() + static_cast<int64_t>(held),
                                          table.blocks.end()));
    ASSERT_TRUE(!sequence.coming.empty() || table.promised == 0);
    kv_.Fill(sequence.table, from, to);
    table.tokens = sequence.tokens.size();
    chunks_ += sequence.coming.empty() ? 0 : 1;
  }

  void Write() {
    if (sequences_.empty()) return;
    const size_t i = Pick();
    Sequence& sequence = *sequences_[i];
    TwinTable& table = *twin_.tables[i];
    if (!sequence.coming.empty()) return TakePromised(sequence, table);
    const int64_t position = static_cast<int64_t>(sequence.tokens.size());
    if (position >= kMostTokens) return;
    const size_t begin = static_cast<size_t>(position / kBlock) * twin_.groups();
    const bool append = begin == table.blocks.size();
    std::vector<size_t> shared;
    for (size_t i = begin; !append && i < begin + twin_.groups(); ++i) {
      if (twin_.LiveHolders(table.blocks[i]) > 1) shared.push_back(i);
    }
    BlockTable spare;
    std::vector<BlockId> added;
    std::vector<CopyOnWrite> copies;
    const int64_t needed = append ? kv_.num_groups() : static_cast<int64_t>(shared.size());
    ASSERT_EQ(kv_.BlocksToWrite(sequence.table, position), needed);
    const bool done = kv_.ReserveToWrite(&sequence.table, position, &spare, &added, &copies);
    ASSERT_EQ(done, twin_.num_free() >= needed);
    ASSERT_EQ(copies.size(), done ? shared.size() : 0);
    if (!done) return;
    if (append) {
      ASSERT_TRUE(twin_.Take(&table.blocks, twin_.groups()));
    }
    for (size_t i = 0; i < shared.size(); ++i) {
      const BlockId source = std::exchange(table.blocks[shared[i]], twin_.TakeOne());
      ASSERT_EQ(copies[i].copy, (BlockCopy{source, table.blocks[shared[i]]}));
      ++copies_;
    }
    sequence.tokens.push_back(DrawToken());
    kv_.Fill(sequence.table, position, position + 1);
    table.tokens = sequence.tokens.size();
    kv_.CheckWritable(sequence.table, position);
    kv_.CheckWindows(sequence.table, position + 1);
  }

  void Publish() {
    if (sequences_.empty()) return;
    const size_t i = Pick();
    Sequence& sequence = *sequences_[i];
    const int64_t committed = Draw(static_cast<int64_t>(twin_.tables[i]->published) * kBlock,
                                   static_cast<int64_t>(sequence.tokens.size()));
    kv_.Publish(sequence.table, sequence.tokens, committed, &sequence.chain);
    twin_.Publish(twin_.tables[i].get(), sequence.tokens, static_cast<size_t>(committed) / kBlock);
  }

  void Slide() {
    if (sequences_.empty()) return;
    const size_t i = Pick();
    Sequence& sequence = *sequences_[i];
    TwinTable& table = *twin_.tables[i];
    const int64_t length = static_cast<int64_t>(sequence.tokens.size());
    const int64_t committed = Draw(table.slid, length);
    const int64_t before = std::count(table.blocks.begin(), table.blocks.end(), 0);
    const int64_t sliding = kv_.BlocksSliding(sequence.table, committed);
    kv_.Slide(&sequence.table, committed, nullptr);
    twin_.Slide(&table, committed);
    ASSERT_EQ(std::count(table.blocks.begin(), table.blocks.end(), 0) - before, sliding);
    slid_ += static_cast<uint64_t>(sliding);
    kv_.CheckWindows(sequence.table, length);
  }

  void Fork() {
    if (sequences_.empty()) return;
    const size_t i = Pick();
    if (!sequences_[i]->coming.empty()) return;
    auto child = std::make_unique<Sequence>();
    child->tokens = sequences_[i]->tokens;
    child->chain = sequences_[i]->chain;
    kv_.Fork(&sequences_[i]->table, kv_.NumRows(sequences_[i]->table), &child->table);
    sequences_.push_back(std::move(child));
    twin_.tables.push_back(std::make_unique<TwinTable>(*twin_.tables[i]));
  }

  void Release() {
    if (sequences_.empty()) return;
    const size_t i = Pick();
    const StepId last_step = committed_ + static_cast<StepId>(Draw(0, 2));
    const std::vector<BlockId>& blocks = twin_.tables[i]->blocks;
    const size_t tokens = sequences_[i]->tokens.size();
    bool ended = Draw(0, 1) == 0;
    if (kv_.retains() && retained_.size() < 4 && !blocks.empty() &&
        twin_.Holders(blocks.back()) == 1) {
      const RetainedTable retained = kv_.Retain(sequences_[i]->table, static_cast<int32_t>(tokens));
      retained_.push_back({sequences_[i]->tokens, twin_.tables[i]->salt, retained});
      twin_.retained.push_back(blocks);
      ended = false;
    }
    kv_.Release(&sequences_[i]->table, last_step, ended);
    sequences_.erase(sequences_.begin() + static_cast<int64_t>(i));
    std::unique_ptr<TwinTable> table = std::move(twin_.tables[i]);
    twin_.tables.erase(twin_.tables.begin() + static_cast<int64_t>(i));
    table->ended = ended;
    if (last_step <= committed_) return twin_.Drop(table.get());
    table->last_step = last_step;
    twin_.deferred.push_back(std::move(table));
  }

  // Of what a table held, blocks that were never lent since are taken as they are, and the others
  // come from the host.
  void Resume() {
    if (retained_.empty()) return;
    const size_t i = static_cast<size_t>(Draw(0, static_cast<int64_t>(retained_.size()) - 1));
    Retained before = std::move(retained_[i]);
    std::vector<BlockId> blocks = std::move(twin_.retained[i]);
    retained_.erase(retained_.begin() + static_cast<int64_t>(i));
    twin_.retained.erase(twin_.retained.begin() + static_cast<int64_t>(i));
    int64_t taken = 0;
    for (size_t entry = 0; entry < blocks.size(); ++entry) {
      RetainedBlock& block = before.table.blocks[entry];
      ASSERT_EQ(kv_.Intact(block), blocks[entry] != 0);
      block.host = static_cast<BlockId>(entry) + 1;
      taken += blocks[entry] == 0 || twin_.Holders(blocks[entry]) == 0 ? 1 : 0;
    }
    if (taken > twin_.num_free()) return;
    for (const BlockId block : blocks) twin_.Hold(block);
    std::vector<BlockSwap> expected;
    for (size_t entry = 0; entry < blocks.size(); ++entry) {
      if (blocks[entry] != 0) continue;
      blocks[entry] = twin_.TakeOne();
      expected.push_back({blocks[entry], static_cast<BlockId>(entry) + 1});
    }
    auto sequence = std::make_unique<Sequence>();
    auto table = std::make_unique<TwinTable>();
    std::vector<BlockSwap> swap_ins;
    kv_.Resume(&sequence->table, before.table.blocks, before.table.tokens, /*reuse=*/true,
               &swap_ins);
    ASSERT_EQ(swap_ins, expected);
    reused_ += blocks.size() - swap_ins.size();
    swapped_ += swap_ins.size();
    sequence->tokens = std::move(before.tokens);
    table->tokens = sequence->tokens.size();
    kv_.EnableCaching(&sequence->chain, "", before.salt);
    kv_.BeginChain(&sequence->chain, 0);
    table->blocks = std::move(blocks);
    table->salt = before.salt;
    table->generation = twin_.generation;
    sequences_.push_back(std::move(sequence));
    twin_.tables.push_back(std::move(table));
  }

  void CommitStep() {
    kv_.CommitStep(++committed_);
    for (auto& table : twin_.deferred) {
      if (table->last_step <= committed_) twin_.Drop(table.get());
    }
    std::erase_if(twin_.deferred,
                  [this](const auto& table) { return table->last_step <= committed_; });
  }

  void Flush() {
    kv_.FlushCache();
    twin_.Flush();
    ForgetRetained();
  }

  void ForgetRetained() {
    retained_.clear();
    twin_.retained.clear();
  }

  void Reset() {
    kv_.ForgetSteps();
    twin_.Flush();
    ForgetRetained();
    for (auto& table : twin_.deferred) twin_.Drop(table.get());
    twin_.deferred.clear();
    committed_ = 0;
  }

  std::mt19937_64 random_;
  KvManager kv_;
  Twin twin_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<Retained> retained_;
  StepId committed_ = 0;
  uint64_t copies_ = 0;
  uint64_t hits_ = 0;
  uint64_t slid_ = 0;
  uint64_t reused_ = 0;
  uint64_t swapped_ = 0;
  uint64_t chunks_ = 0;  // before the last of a prompt
};

TEST(KvManager, AgreesWithANaiveTwinOnRandomOperations) {  // kv.1 to kv.7
  uint64_t hits = 0;
  uint64_t copies = 0;
  uint64_t evictions = 0;
  uint64_t slid = 0;
  uint64_t reused = 0;
  uint64_t swapped = 0;
  uint64_t chunks = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Pair pair(seed, seed < 20 ? kWindows[0] : kWindows[seed % kWindows.size()]);
    for (int i = 0; i < 1500; ++i) {
      pair.Operate();
      pair.Compare();
      if (testing::Test::HasFatalFailure()) {
        GTEST_FAIL() << "after " << i + 1 << " operations";
      }
    }
    hits += pair.hits();
    copies += pair.copies();
    evictions += pair.evictions();
    slid += pair.slid();
    reused += pair.reused();
    swapped += pair.swapped();
    chunks += pair.chunks();
  }
  // The operations must go where the trouble is.
  EXPECT_GT(hits, 1000u);
  EXPECT_GT(copies, 1000u);
  EXPECT_GT(evictions, 1000u);
  EXPECT_GT(slid, 1000u);
  EXPECT_GT(reused, 200u);
  EXPECT_GT(swapped, 200u);
  EXPECT_GT(chunks, 200u);
}

}  // namespace
}  // namespace octavo
