// KvManager against a naive twin: random operations, everything compared after each one. The twin
// keeps no counts and no hashes: it scans all tables, and an index entry is a whole prefix. Seeds
// differ in the groups of layers that tables have blocks for (kv.7).
#include <algorithm>
#include <deque>
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

constexpr int32_t kBlock = 3;  // tokens
constexpr int64_t kBlocks = 20;
constexpr int64_t kMostTokens = 14;

// Of each group of layers, in tokens; 0: sees all.
const std::vector<std::vector<int32_t>> kWindows = {{0}, {0, 4}, {5}, {0, 0, 2}, {0, 7, 1}, {9, 3}};

using Tokens = std::vector<TokenId>;

struct TwinTable {
  std::vector<BlockId> blocks;  // rows of one for each group
  int64_t slid = 0;             // tokens
  std::string salt;
  size_t tokens = 0;
  size_t published = 0;
  uint64_t tail = 0;  // entry of the last published block
  int generation = 0;
  StepId last_step = 0;  // of a deferred one
  bool ended = false;
};

class Twin {
 public:
  explicit Twin(const std::vector<int32_t>& windows) : windows_(windows) {
    for (BlockId block = 1; block <= kBlocks; ++block) free_.push_back(block);
  }

  size_t groups() const { return windows_.size(); }
  bool windowed(size_t group) const { return windows_[group] > 0; }
  // Whether a group sees something of row `row` at `position` or later.
  bool Sees(size_t group, size_t row, int64_t position) const {
    return windows_[group] == 0 ||
           static_cast<int64_t>(row + 1) * kBlock > position - windows_[group] + 1;
  }
  // Entries of the longest beginning that a table can have; `tail` is its last row's.
  std::vector<BlockId> Match(const std::string& salt, const Tokens& tokens, size_t most,
                             uint64_t* tail) const {
    std::vector<const Entry*> rows;
    while (rows.size() < most) {
      const Entry* entry =
          Find(salt, Prefix(tokens, rows.size() + 1), rows.empty() ? 0 : rows.back()->id);
      if (entry == nullptr) break;
      rows.push_back(entry);
    }
    for (; !rows.empty(); rows.pop_back()) {
      std::vector<BlockId> blocks;
      bool whole = true;
      for (size_t row = 0; row < rows.size(); ++row) {
        for (size_t group = 0; group < groups(); ++group) {
          const bool seen = Sees(group, row, static_cast<int64_t>(rows.size()) * kBlock);
          whole &= !seen || rows[row]->blocks[group] != 0;
          blocks.push_back(seen ? rows[row]->blocks[group] : 0);
        }
      }
      *tail = rows.back()->id;
      if (whole) return blocks;
    }
    *tail = 0;
    return {};
  }
  bool Take(std::vector<BlockId>* blocks, size_t count) {
    if (free_.size() < count) return false;
    for (; count > 0; --count) blocks->push_back(TakeOne());
    return true;
  }
  BlockId TakeOne() {
    const BlockId block = free_.front();
    free_.pop_front();
    evictions += Named(block) ? 1 : 0;
    Unname(block);
    for (auto& given_up : retained) std::replace(given_up.begin(), given_up.end(), block, 0);
    return block;
  }
  void Hold(BlockId block) { std::erase(free_, block); }
  void Leave(BlockId block, bool ended = false) {
    if (block == 0 || Holders(block) > 0) return;
    if (ended && !Named(block)) {
      free_.push_front(block);
    } else {
      free_.push_back(block);
    }
  }
  void Drop(TwinTable* table) {
    while (!table->blocks.empty()) {
      const BlockId block = table->blocks.back();
      table->blocks.pop_back();
      Leave(block, table->ended);
    }
  }
  void Slide(TwinTable* table, int64_t committed) {
    for (size_t group = 0; group < groups(); ++group) {
      for (size_t i = group; i < table->blocks.size(); i += groups()) {
        if (Sees(group, i / groups(), committed)) break;
        Leave(std::exchange(table->blocks[i], 0));
      }
    }
    table->slid = committed;
  }
  void Publish(TwinTable* table, const Tokens& tokens, size_t full) {
    if (table->generation != generation) return;
    if (table->published > 0 && !Alive(table->tail)) table->published = table->tail = 0;
    for (; table->published < full; ++table->published) {
      const Tokens prefix = Prefix(tokens, table->published + 1);
      const auto begin = table->blocks.begin() + static_cast<int64_t>(table->published * groups());
      const std::vector<BlockId> row(begin, begin + static_cast<int64_t>(groups()));
      if (row[0] == 0) {
        table->generation = -1;
        return;
      }
      Entry* entry = Find(table->salt, prefix, table->tail);
      if (entry == nullptr) {
        std::erase_if(entries_, [&](const Entry& other) {
          return other.salt == table->salt && other.prefix == prefix;
        });
        for (const BlockId block : row) Unname(block);
        entries_.push_back(
            {++last_id_, table->tail, table->salt, prefix, std::vector<BlockId>(groups(), 0)});
        entry = &entries_.back();
        entry->blocks[0] = row[0];
      }
      for (size_t group = 1; group < groups(); ++group) {
        if (entry->blocks[group] == 0 && !Named(row[group])) entry->blocks[group] = row[group];
      }
      table->tail = entry->id;
    }
  }
  void Flush() {
    entries_.clear();
    ++generation;
  }

  int Holders(BlockId block) const { return LiveHolders(block) + HoldersIn(deferred, block); }
  int LiveHolders(BlockId block) const { return HoldersIn(tables, block); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  int64_t num_cached() const {
    return std::count_if(free_.begin(), free_.end(),
                         [this](BlockId block) { return Named(block); });
  }
  int64_t num_saved() const {
    int64_t references = 0;
    for (BlockId block = 1; block <= kBlocks; ++block) references += Holders(block);
    return references - (kBlocks - num_free());
  }
  int64_t num_deferred() const {
    int64_t blocks = 0;
    for (BlockId block = 1; block <= kBlocks; ++block) {
      const bool live = std::any_of(tables.begin(), tables.end(), [block](const auto& table) {
        return std::count(table->blocks.begin(), table->blocks.end(), block) > 0;
      });
      blocks += !live && Holders(block) > 0 ? 1 : 0;
    }
    return blocks;
  }

  // Every slot of the blocks in live tables, and whether one of them has a token there.
  std::map<int64_t, bool> Slots() const {
    std::map<int64_t, bool> slots;
    for (const auto& table : tables) {
      for (size_t i = 0; i < table->blocks.size() * kBlock; ++i) {
        const size_t entry = i / kBlock;
        if (table->blocks[entry] == 0) continue;
        slots[table->blocks[entry] * kBlock + static_cast<int64_t>(i % kBlock)] |=
            entry / groups() * kBlock + i % kBlock < table->tokens;
      }
    }
    return slots;
  }

  std::vector<std::unique_ptr<TwinTable>> tables;
  std::vector<std::unique_ptr<TwinTable>> deferred;
  std::vector<std::vector<BlockId>> retained;  // 0 where the block was lent again
  uint64_t evictions = 0;
  int generation = 0;

 private:
  static int HoldersIn(const std::vector<std::unique_ptr<TwinTable>>& list, BlockId block) {
    int holders = 0;
    for (const auto& table : list) {
      holders += static_cast<int>(std::count(table->blocks.begin(), table->blocks.end(), block));
    }
    return holders;
  }

  struct Entry {
    uint64_t id = 0;
    uint64_t parent = 0;
    std::string salt;
    Tokens prefix;
    std::vector<BlockId> blocks;  // by group; 0: none
  };

  static Tokens Prefix(const Tokens& tokens, size_t blocks) {
    return {tokens.begin(), tokens.begin() + static_cast<int64_t>(blocks * kBlock)};
  }
  bool Named(BlockId block) const {
    return std::any_of(entries_.begin(), entries_.end(), [block](const Entry& entry) {
      return std::count(entry.blocks.begin(), entry.blocks.end(), block) > 0;
    });
  }
  void Unname(BlockId block) {
    if (block == 0) return;
    std::erase_if(entries_, [block](const Entry& entry) { return entry.blocks[0] == block; });
    for (Entry& entry : entries_) std::replace(entry.blocks.begin(), entry.blocks.end(), block, 0);
  }
  bool Alive(uint64_t id) const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [id](const Entry& entry) { return entry.id == id; });
  }
  const Entry* Find(const std::string& salt, const Tokens& prefix, uint64_t parent) const {
    for (const Entry& entry : entries_) {
      if (entry.salt == salt && entry.prefix == prefix && entry.parent == parent) return &entry;
    }
    return nullptr;
  }
  Entry* Find(const std::string& salt, const Tokens& prefix, uint64_t parent) {
    return const_cast<Entry*>(std::as_const(*this).Find(salt, prefix, parent));
  }

  const std::vector<int32_t> windows_;
  std::deque<BlockId> free_;
  std::vector<Entry> entries_;
  uint64_t last_id_ = 0;
};

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

 private:
  struct Sequence {
    BlockTable table;
    PrefixChain chain;
    Tokens tokens;
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
    kv_.BeginChain(&sequence->chain, found);
    kv_.Fill(sequence->table, found * kBlock, static_cast<int64_t>(sequence->tokens.size()));
    table->tokens = sequence->tokens.size();
    sequences_.push_back(std::move(sequence));
    twin_.tables.push_back(std::move(table));
  }

  void Write() {
    if (sequences_.empty()) return;
    const size_t i = Pick();
    Sequence& sequence = *sequences_[i];
    TwinTable& table = *twin_.tables[i];
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
    if (kv_.retains() && retained_.size() < 4 && twin_.Holders(blocks.back()) == 1) {
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
};

TEST(KvManager, AgreesWithANaiveTwinOnRandomOperations) {  // kv.1 to kv.7
  uint64_t hits = 0;
  uint64_t copies = 0;
  uint64_t evictions = 0;
  uint64_t slid = 0;
  uint64_t reused = 0;
  uint64_t swapped = 0;
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
  }
  // The operations must go where the trouble is.
  EXPECT_GT(hits, 1000u);
  EXPECT_GT(copies, 1000u);
  EXPECT_GT(evictions, 1000u);
  EXPECT_GT(slid, 1000u);
  EXPECT_GT(reused, 200u);
  EXPECT_GT(swapped, 200u);
}

}  // namespace
}  // namespace octavo
