// A happens-before race detector. Kernels are compiled with -fsanitize=thread, which makes the
// compiler call __tsan_readN and __tsan_writeN around each access; access_entry_points.cc supplies
// those, and libtsan is not linked. Vector clocks: barriers and __syncwarp join; a fence before an
// atomic releases, a fence after it acquires, also across blocks (PTX memory model). Also checks
// bounds, initialisation and unfinished asynchronous copies at every access.
//
// Limits: global memory keeps one reader per byte, so a write after several reads may be missed.
#include "tests/emulation/race_detector.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tests/emulation/access_hooks.h"
#include "tests/emulation/emulation.h"

namespace octavo::emulation {
namespace {

using Clock = std::vector<uint32_t>;                                // per thread of a block
using ForeignClocks = std::map<int, std::shared_ptr<const Clock>>;  // what is known of other blocks

struct ThreadState {
  Clock clock, released;
  ForeignClocks foreign, released_foreign, acquirable;
  bool fenced = false;
};
struct SharedByte {
  uint32_t write_clock = 0, read_clock = 0;
  int16_t writer = 0, reader = 0;
  bool pending = false;
  std::unique_ptr<Clock> readers;  // once there is more than one
};
struct BlockState {
  std::vector<ThreadState> threads;
  std::vector<SharedByte> shared;
};
struct GlobalByte {
  uint32_t write_clock = 0, read_clock = 0;
  int write_block = -1, read_block = -1;
  int16_t writer = 0, reader = 0;
};
// Of the bytes of one launch; a page of an older launch counts as empty.
constexpr uintptr_t kPageBytes = 256;
constexpr size_t kMaxPages = size_t{1} << 15;  // kept from launch to launch, of 6 KiB
struct GlobalPage {
  uint64_t launch = 0;
  std::array<GlobalByte, kPageBytes> bytes;
};

void Merge(Clock* into, const Clock& from) {
  if (into->size() < from.size()) into->resize(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] > (*into)[i]) (*into)[i] = from[i];
}
void Merge(ForeignClocks* into, const ForeignClocks& from) {
  for (const auto& [block, clock] : from) {
    auto& known = (*into)[block];
    if (!known) {
      known = clock;
    } else if (known != clock) {
      Clock merged = *known;
      Merge(&merged, *clock);
      known = std::make_shared<const Clock>(std::move(merged));
    }
  }
}

class RaceDetector final : public AccessHooks {
 public:
  RaceDetector() { hooks = this; }

  void GridBegins() override {
    launch_++;
    last_page_ = nullptr;
    last_page_number_ = 0;
    atomics_.clear();
    atomic_bytes_.clear();
    touched_.clear();
    if (pages_.size() > kMaxPages) pages_.clear();
  }

  void GridEnds(std::vector<ByteRange>* reads, std::vector<ByteRange>* writes) override {
    std::sort(touched_.begin(), touched_.end());
    const auto add = [](std::vector<ByteRange>* ranges, uintptr_t at, size_t bytes) {
      if (!ranges->empty() && ranges->back().end == at)
        ranges->back().end += bytes;
      else
        ranges->push_back({at, at + bytes});
    };
    for (const uintptr_t page : touched_)
      for (uintptr_t i = 0; const GlobalByte& byte : pages_[page]->bytes) {
        const uintptr_t at = page * kPageBytes + i++;
        if (byte.write_clock)
          add(writes, at, 1);
        else if (byte.read_clock)
          add(reads, at, 1);
      }
    for (const auto& [at, bytes] : atomic_bytes_) add(writes, at, bytes);
  }

  void BlockBegins(Block* block) override {
    last_block_ = nullptr;  // the allocator may reuse the address
    BlockState& state = blocks_[block];
    const auto threads = static_cast<size_t>(BlockThreads(block));
    state.threads.assign(threads, {});
    state.shared.clear();
    for (size_t i = 0; i < threads; ++i) {
      state.threads[i].clock.assign(threads, 0);
      state.threads[i].clock[i] = 1;
    }
  }

  void BlockEnds(Block* block) override {
    last_block_ = nullptr;
    blocks_.erase(block);
  }

  void Synchronise(Block* block, Thread** threads, size_t count) override {
    BlockState& state = blocks_[block];
    auto at = [&](size_t i) -> ThreadState& {
      return state.threads[static_cast<size_t>(threads[i]->linear)];
    };
    Clock joined = at(0).clock;
    ForeignClocks foreign = at(0).foreign;
    for (size_t i = 1; i < count; ++i) {
      Merge(&joined, at(i).clock);
      if (!at(i).foreign.empty()) Merge(&foreign, at(i).foreign);
    }
    for (size_t i = 0; i < count; ++i) {
      at(i).clock = joined;
      at(i).foreign = foreign;
      at(i).clock[static_cast<size_t>(threads[i]->linear)]++;
    }
  }

  void Fence(Thread* thread, bool) override {
    ThreadState& state = StateOf(thread);
    state.released = state.clock;
    state.released_foreign = state.foreign;
    state.fenced = true;
    const auto own = state.acquirable.find(BlockIndex(thread->block));
    if (own != state.acquirable.end()) Merge(&state.clock, *own->second);
    Merge(&state.foreign, state.acquirable);
    state.acquirable.clear();
    state.clock[static_cast<size_t>(thread->linear)]++;
  }

  void Atomic(Thread* thread, const void* address, size_t bytes) override {
    bool bad = false;
    if (!InShared(address, bytes, &bad) && InDevice(address, bytes, &bad) && bad)
      Fail("global memory atomic of %zu bytes at %p is outside every allocation", bytes, address);
    if (InDevice(address, bytes, &bad)) atomic_bytes_[reinterpret_cast<uintptr_t>(address)] = bytes;
    ThreadState& state = StateOf(thread);
    ForeignClocks& released = atomics_[reinterpret_cast<uintptr_t>(address)];
    Merge(&state.acquirable, released);
    if (!state.fenced) return;
    ForeignClocks own = state.released_foreign;
    own[BlockIndex(thread->block)] = std::make_shared<const Clock>(state.released);
    Merge(&released, own);
  }

  void Read(Thread* thread, const void* address, size_t bytes) override {
    if (bytes) Access(thread, address, bytes, false, false);
  }
  void Write(Thread* thread, const void* address, size_t bytes, bool pending) override {
    if (bytes) Access(thread, address, bytes, true, pending);
  }

 private:
  BlockState& StateOf(Block* block) {
    if (last_block_ != block) {
      last_block_ = block;
      last_state_ = &blocks_[block];
    }
    return *last_state_;
  }
  ThreadState& StateOf(Thread* thread) {
    return StateOf(thread->block).threads[static_cast<size_t>(thread->linear)];
  }

  void Access(Thread* thread, const void* address, size_t bytes, bool write, bool pending) {
    bool bad = false;
    const char* verb = write ? "write" : "read";
    if (InShared(address, bytes, &bad)) {
      if (bad)
        Fail("shared memory %s of %zu bytes out of bounds (offset %zu of the arena)", verb, bytes,
             SharedOffset(address));
      AccessShared(thread, SharedOffset(address), bytes, write, pending);
    } else if (InDevice(address, bytes, &bad)) {
      if (bad)
        Fail("global memory %s of %zu bytes at %p is outside every allocation", verb, bytes,
             address);
      const auto at = reinterpret_cast<uintptr_t>(address);
      for (size_t i = 0; i < bytes; ++i) AccessGlobal(thread, at + i, write);
    }
  }

  void AccessShared(Thread* thread, size_t offset, size_t bytes, bool write, bool pending) {
    BlockState& block = StateOf(thread->block);
    const ThreadState& state = StateOf(thread);
    if (block.shared.size() < offset + bytes) block.shared.resize((offset + bytes + 8191) & ~8191);
    for (size_t i = offset; i < offset + bytes; ++i) {
      SharedByte& byte = block.shared[i];
      const int self = thread->linear;
      if (byte.write_clock && byte.writer != self && !Knows(state, byte.writer, byte.write_clock))
        Fail("race in shared memory: %s by thread %d, but thread %d %s it with no barrier between",
             write ? "write" : "read", self, byte.writer,
             byte.pending ? "has an unfinished cp.async to" : "wrote");
      if (write) {
        WriteShared(state, self, &byte);
        byte.pending = pending;
      } else {
        if (byte.writer == self && byte.pending)
          Fail("shared memory read before cp.async.wait_group");
        if (!byte.write_clock)
          Fail("uninitialised shared memory read (%zu bytes, offset %zu)", bytes, offset);
        ReadShared(state, self, &byte);
      }
    }
  }

  static bool Knows(const ThreadState& state, int thread, uint32_t clock) {
    return state.clock[static_cast<size_t>(thread)] >= clock;
  }

  static void ReadShared(const ThreadState& state, int self, SharedByte* byte) {
    const uint32_t now = state.clock[static_cast<size_t>(self)];
    const bool only =
        !byte->read_clock || byte->reader == self || Knows(state, byte->reader, byte->read_clock);
    if (!only && !byte->readers) {
      byte->readers = std::make_unique<Clock>(state.clock.size(), 0u);
      (*byte->readers)[static_cast<size_t>(byte->reader)] = byte->read_clock;
    }
    if (byte->readers) (*byte->readers)[static_cast<size_t>(self)] = now;
    byte->reader = static_cast<int16_t>(self);
    byte->read_clock = now;
  }

  static void WriteShared(const ThreadState& state, int self, SharedByte* byte) {
    int other = -1;
    if (byte->read_clock && byte->reader != self && !Knows(state, byte->reader, byte->read_clock))
      other = byte->reader;
    if (byte->readers) {
      for (size_t i = 0; i < byte->readers->size(); ++i)
        if (static_cast<int>(i) != self && (*byte->readers)[i] > state.clock[i])
          other = static_cast<int>(i);
      byte->readers.reset();
    }
    if (other >= 0)
      Fail(
          "race in shared memory: write by thread %d, but thread %d read it with no barrier "
          "between",
          self, other);
    byte->writer = static_cast<int16_t>(self);
    byte->write_clock = state.clock[static_cast<size_t>(self)];
    byte->read_clock = 0;
  }

  GlobalByte& Global(uintptr_t address) {
    const uintptr_t page = address / kPageBytes;
    if (!last_page_ || page != last_page_number_) {
      auto& entry = pages_[page];
      if (!entry) entry = std::make_unique<GlobalPage>();
      if (entry->launch != launch_) {
        entry->launch = launch_;
        touched_.push_back(page);
        entry->bytes.fill({});
      }
      last_page_ = entry.get();
      last_page_number_ = page;
    }
    return last_page_->bytes[address % kPageBytes];
  }

  static bool Ordered(const ThreadState& state, int self_block, int self, int block, int thread,
                      uint32_t clock) {
    if (block == self_block) return thread == self || Knows(state, thread, clock);
    const auto known = state.foreign.find(block);
    return known != state.foreign.end() && (*known->second)[static_cast<size_t>(thread)] >= clock;
  }

  void AccessGlobal(Thread* thread, uintptr_t address, bool write) {
    const ThreadState& state = StateOf(thread);
    const int block = BlockIndex(thread->block), self = thread->linear;
    GlobalByte& byte = Global(address);
    if (byte.write_clock &&
        !Ordered(state, block, self, byte.write_block, byte.writer, byte.write_clock))
      Fail(
          "race in global memory: %s by thread %d, but block %d thread %d wrote it and nothing "
          "orders the two",
          write ? "write" : "read", self, byte.write_block, byte.writer);
    const uint32_t now = state.clock[static_cast<size_t>(self)];
    if (!write) {
      byte.read_block = block;
      byte.reader = static_cast<int16_t>(self);
      byte.read_clock = now;
      return;
    }
    if (byte.read_clock &&
        !Ordered(state, block, self, byte.read_block, byte.reader, byte.read_clock))
      Fail(
          "race in global memory: write by thread %d, but block %d thread %d read it and nothing "
          "orders the two",
          self, byte.read_block, byte.reader);
    byte.write_block = block;
    byte.writer = static_cast<int16_t>(self);
    byte.write_clock = now;
    byte.read_clock = 0;
  }

  std::unordered_map<const Block*, BlockState> blocks_;
  std::unordered_map<uintptr_t, std::unique_ptr<GlobalPage>> pages_;
  std::unordered_map<uintptr_t, ForeignClocks> atomics_;  // released at each address
  std::map<uintptr_t, size_t> atomic_bytes_;              // of this launch, of global memory
  std::vector<uintptr_t> touched_;                        // pages of this launch
  uint64_t launch_ = 0;
  const Block* last_block_ = nullptr;
  BlockState* last_state_ = nullptr;
  GlobalPage* last_page_ = nullptr;
  uintptr_t last_page_number_ = 0;
};

RaceDetector detector;

}  // namespace

void CheckAccess(void* address, size_t bytes, bool write) {
  if (!current) return;
  bool bad;
  if (reinterpret_cast<uintptr_t>(address) % bytes &&
      (InShared(address, bytes, &bad) || InDevice(address, bytes, &bad)))
    Fail("misaligned %zu-byte %s at %p", bytes, write ? "write" : "read", address);
  CheckRange(address, bytes, write);
}

void CheckRange(void* address, size_t bytes, bool write) {
  if (!current) return;
  if (write)
    detector.Write(current, address, bytes, false);
  else
    detector.Read(current, address, bytes);
}

}  // namespace octavo::emulation
