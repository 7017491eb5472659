// Who has read and written which bytes: the shadow of device and pinned memory.
#ifndef OCTAVO_TESTS_EMULATION_ACCESS_HISTORY_H_
#define OCTAVO_TESTS_EMULATION_ACCESS_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "tests/emulation/stream_clock.h"

namespace octavo::emulation {

struct ByteRange {
  uintptr_t begin = 0, end = 0;
};
inline ByteRange RangeOf(const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return {begin, begin + bytes};
}

struct Access {
  uint32_t actor = 0, tick = 0;  // tick 0: none
  uint32_t name = 0;             // the caller's
  bool operator==(const Access&) const = default;
};

// Of every byte the last write and the reads since, as far as they do not follow each other; ranges
// with equal accesses are one piece. At most kMaxReaders reads of a byte that nothing orders are
// kept, and kMaxPieces pieces: when these do not suffice, older accesses are forgotten.
class AccessHistory {
 public:
  static constexpr size_t kMaxReaders = 3;
  static constexpr size_t kMaxPieces = size_t{1} << 18;  // some 100 bytes each

  struct Conflict {
    ByteRange bytes;
    Access other;
    bool other_writes = false;
  };

  // Adds the access and returns the first one before it that conflicts with it and is not ordered
  // before it. Operations are recorded in an order that agrees with theirs.
  std::optional<Conflict> Record(ByteRange range, bool write, const Moment& moment, uint32_t name);
  // The memory is another from now on.
  void Forget(ByteRange range);
  void Clear() { pieces_.clear(); }
  // Drops accesses that no operation to come can conflict with.
  void Prune(const std::function<bool(const Access&)>& is_settled);
  size_t num_pieces() const { return pieces_.size(); }

 private:
  struct Piece {
    uintptr_t end = 0;
    Access write;
    std::array<Access, kMaxReaders> reads;  // those there are come first
    bool SameAccesses(const Piece& other) const {
      return write == other.write && reads == other.reads;
    }
  };
  using Pieces = std::map<uintptr_t, Piece>;  // by begin

  // No piece lies on both sides of it any more. Returns the first one from there on.
  Pieces::iterator SplitAt(uintptr_t address);
  Pieces::iterator JoinBefore(Pieces::iterator piece);

  Pieces pieces_;
};

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_ACCESS_HISTORY_H_
