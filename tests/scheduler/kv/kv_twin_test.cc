// KvManager against a naive twin: random operations, everything compared after each one. The twin
// keeps no counts and no hashes: it scans all tables, and an index entry is a whole prefix.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/kv/kv_manager.h"

namespace octavo {
namespace {

constexpr int32_t kBlock = 3;  // tokens
constexpr int64_t kBlocks = 20;
constexpr size_t kMostTokens = 14;

using Tokens = std::vector<TokenId>;

struct TwinTable {
  std::vector<BlockId> blocks;
  std::string salt;
  size_t tokens = 0;
  size_t published = 0;
  uint64_t tail = 0;  // entry of the last published block
  int generation = 0;
  StepId last_step = 0;  // of a deferred one
};

class Twin {
 public:
  Twin() {
    for (BlockId block = 1; block <= kBlocks; ++block) free_.push_back(block);
  }

  std::vector<BlockId> Match(const std::string& salt, const Tokens& tokens, size_t most,
                             uint64_t* tail) const {
    std::vector<BlockId> blocks;
    *tail = 0;
    while (blocks.size() < most) {
      const Entry* entry = Find(salt, Prefix(tokens, blocks.size() + 1), *tail);
      if (entry == nullptr) break;
      blocks.push_back(entry->block);
      *tail = entry->id;
    }
    return blocks;
  }
  bool Take(std::vector<BlockId>* blocks, size_t count) {
    if (free_.size() < count) return false;
    for (; count > 0; --count) blocks->push_back(TakeOne());
    return true;
  }
  BlockId TakeOne() {
    const BlockId block = free_.front();
    free_.pop_front();
    const size_t before = entries_.size();
    std::erase_if(entries_, [block](const Entry& entry) { return entry.block == block; });
    evictions += before - entries_.size();
    return block;
  }
  void Hold(BlockId block) { std::erase(free_, block); }
  void Drop(TwinTable* table) {
    while (!table->blocks.empty()) {
      const BlockId block = table->blocks.back();
      table->blocks.pop_back();
      if (Holders(block) == 0) free_.push_back(block);
    }
  }
  void Publish(TwinTable* table, const Tokens& tokens, size_t full) {
    if (table->generation != generation) return;
    if (table->published > 0 && !Alive(table->tail)) table->published = table->tail = 0;
    for (; table->published < full; ++table->published) {
      const Tokens prefix = Prefix(tokens, table->published + 1);
      if (const Entry* entry = Find(table->salt, prefix, table->tail)) {
        table->tail = entry->id;
        continue;
      }
      std::erase_if(entries_, [&](const Entry& entry) {
        return entry.salt == table->salt && entry.prefix == prefix;
      });
      entries_.push_back(
          {++last_id_, table->tail, table->salt, prefix, table->blocks[table->published]});
      table->tail = last_id_;
    }
  }
  void Flush() {
    entries_.clear();
    ++generation;
  }

  int Holders(BlockId block) const {
    int holders = 0;
    for (const auto* list : {&tables, &deferred}) {
      for (const auto& table : *list) {
        holders += static_cast<int>(std::count(table->blocks.begin(), table->blocks.end(), block));
      }
    }
    return holders;
  }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  int64_t num_cached() const {
    return std::count_if(free_.begin(), free_.end(), [this](BlockId block) {
      return std::any_of(entries_.begin(), entries_.end(),
                         [block](const Entry& entry) { return entry.block == block; });
    });
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
        slots[table->blocks[i / kBlock] * kBlock + static_cast<int64_t>(i % kBlock)] |=
            i < table->tokens;
      }
    }
    return slots;
  }

  std::vector<std::unique_ptr<TwinTable>> tables;
  std::vector<std::unique_ptr<TwinTable>> deferred;
  uint64_t evictions = 0;
  int generation = 0;

 private:
  struct Entry {
    uint64_t id = 0;
    uint64_t parent = 0;
    std::string salt;
    Tokens prefix;
    BlockId block = 0;
  };

  static Tokens Prefix(const Tokens& tokens, size_t blocks) {
    return {tokens.begin(), tokens.begin() + static_cast<int64_t>(blocks * kBlock)};
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

  std::deque<BlockId> free_;
  std::vector<Entry> entries_;
  uint64_t last_id_ = 0;
};

// The same operation on both; sequences are at the same index in both.
class Pair {
 public:
  explicit Pair(uint64_t seed) : random_(seed) {}

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
        return Draw(0, 1) == 0 ? Fork() : Publish();
      case 7:
        return Release();
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
  uint64_t evictions() const { return twin_.evictions; }

 private:
  struct Sequence {
    BlockTable table;
    PrefixChain chain;
    Tokens tokens;
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
    ASSERT_EQ(found, static_cast<int64_t>(table->blocks.size()));
    const int64_t missing = kv_.BlocksFor(static_cast<int64_t>(sequence->tokens.size())) - found;
    if (missing + kv_.NumFree(sequence->chain.found) > kv_.num_free()) return;
    hits_ += static_cast<uint64_t>(found);
    table->published = table->blocks.size();
    kv_.Adopt(&sequence->table, sequence->chain.found);
    for (const BlockId block : table->blocks) twin_.Hold(block);
    std::vector<BlockId> added;
    ASSERT_TRUE(
        kv_.Reserve(&sequence->table, static_cast<int64_t>(sequence->tokens.size()), &added));
    ASSERT_TRUE(twin_.Take(&table->blocks, static_cast<size_t>(missing)));
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
    const size_t position = sequence.tokens.size();
    if (position >= kMostTokens) return;
    const size_t index = position / kBlock;
    const bool append = index == table.blocks.size();
    const bool copies = !append && twin_.Holders(table.blocks[index]) > 1;
    BlockTable spare;
    std::vector<BlockId> added;
    std::optional<CopyOnWrite> copy;
    const bool done =
        kv_.ReserveToWrite(&sequence.table, static_cast<int64_t>(position), &spare, &added, &copy);
    ASSERT_EQ(done, !(append || copies) || twin_.num_free() > 0);
    ASSERT_EQ(copy.has_value(), done && copies);
    if (!done) return;
    if (append) table.blocks.push_back(twin_.TakeOne());
    if (copies) {
      const BlockId source = std::exchange(table.blocks[index], twin_.TakeOne());
      ASSERT_EQ(copy->copy, (BlockCopy{source, table.blocks[index]}));
      ++copies_;
    }
    sequence.tokens.push_back(DrawToken());
    kv_.Fill(sequence.table, static_cast<int64_t>(position), static_cast<int64_t>(position) + 1);
    table.tokens = sequence.tokens.size();
    kv_.CheckWritable(sequence.table, static_cast<int64_t>(position));
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

  void Fork() {
    if (sequences_.empty()) return;
    const size_t i = Pick();
    auto child = std::make_unique<Sequence>();
    child->tokens = sequences_[i]->tokens;
    child->chain = sequences_[i]->chain;
    kv_.Fork(sequences_[i]->table, sequences_[i]->table.num_blocks(), &child->table);
    sequences_.push_back(std::move(child));
    twin_.tables.push_back(std::make_unique<TwinTable>(*twin_.tables[i]));
  }

  void Release() {
    if (sequences_.empty()) return;
    const size_t i = Pick();
    const StepId last_step = committed_ + static_cast<StepId>(Draw(0, 2));
    kv_.Release(&sequences_[i]->table, last_step);
    sequences_.erase(sequences_.begin() + static_cast<int64_t>(i));
    std::unique_ptr<TwinTable> table = std::move(twin_.tables[i]);
    twin_.tables.erase(twin_.tables.begin() + static_cast<int64_t>(i));
    if (last_step <= committed_) return twin_.Drop(table.get());
    table->last_step = last_step;
    twin_.deferred.push_back(std::move(table));
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
  }

  void Reset() {
    kv_.ForgetSteps();
    twin_.Flush();
    for (auto& table : twin_.deferred) twin_.Drop(table.get());
    twin_.deferred.clear();
    committed_ = 0;
  }

  std::mt19937_64 random_;
  KvManager kv_{kBlocks, kBlock, {.enabled = true, .key = "k"}};
  Twin twin_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  StepId committed_ = 0;
  uint64_t copies_ = 0;
  uint64_t hits_ = 0;
};

TEST(KvManager, AgreesWithANaiveTwinOnRandomOperations) {  // kv.1 to kv.6
  uint64_t hits = 0;
  uint64_t copies = 0;
  uint64_t evictions = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Pair pair(seed);
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
  }
  // The operations must go where the trouble is.
  EXPECT_GT(hits, 1000u);
  EXPECT_GT(copies, 1000u);
  EXPECT_GT(evictions, 1000u);
}

}  // namespace
}  // namespace octavo
