// The naive twin of KvManager: it keeps no counts and no hashes, scans all tables, and an index
// entry is a whole prefix.
#ifndef OCTAVO_TESTS_SCHEDULER_KV_KV_TWIN_H_
#define OCTAVO_TESTS_SCHEDULER_KV_KV_TWIN_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"

namespace octavo {

inline constexpr int32_t kBlock = 3;  // tokens
inline constexpr int64_t kBlocks = 20;

using Tokens = std::vector<TokenId>;

struct TwinTable {
  std::vector<BlockId> blocks;  // rows of one for each group
  int64_t slid = 0;             // tokens
  std::string salt;
  size_t tokens = 0;
  int64_t promised = 0;  // blocks
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
  int64_t num_unheld() const { return static_cast<int64_t>(free_.size()); }
  int64_t num_free() const {
    int64_t promised = 0;
    for (const auto& table : tables) promised += table->promised;
    return num_unheld() - promised;
  }
  int64_t num_cached() const {
    return std::count_if(free_.begin(), free_.end(),
                         [this](BlockId block) { return Named(block); });
  }
  int64_t num_saved() const {
    int64_t references = 0;
    for (BlockId block = 1; block <= kBlocks; ++block) references += Holders(block);
    return references - (kBlocks - num_unheld());
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

}  // namespace octavo

#endif  // OCTAVO_TESTS_SCHEDULER_KV_KV_TWIN_H_
