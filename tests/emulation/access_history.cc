#include "tests/emulation/access_history.h"

#include <algorithm>
#include <iterator>

namespace octavo::emulation {
namespace {

bool Before(const Access& access, const Moment& moment) {
  return access.tick == 0 || Ordered(access.actor, access.tick, moment);
}

}  // namespace

AccessHistory::Pieces::iterator AccessHistory::SplitAt(uintptr_t address) {
  const auto after = pieces_.lower_bound(address);
  if (after == pieces_.begin() || (after != pieces_.end() && after->first == address)) return after;
  const auto before = std::prev(after);
  if (before->second.end <= address) return after;
  Piece rest = before->second;
  before->second.end = address;
  return pieces_.emplace_hint(after, address, rest);
}

AccessHistory::Pieces::iterator AccessHistory::JoinBefore(Pieces::iterator piece) {
  if (piece == pieces_.begin() || piece == pieces_.end()) return piece;
  const auto before = std::prev(piece);
  if (before->second.end != piece->first || !before->second.SameAccesses(piece->second))
    return piece;
  before->second.end = piece->second.end;
  pieces_.erase(piece);
  return before;
}

std::optional<AccessHistory::Conflict> AccessHistory::Record(ByteRange range, bool write,
                                                             const Moment& moment, uint32_t name) {
  std::optional<Conflict> conflict;
  if (range.begin >= range.end) return conflict;
  const Access access = {moment.actor, moment.tick, name};
  SplitAt(range.end);
  auto it = SplitAt(range.begin);
  for (uintptr_t at = range.begin; at < range.end;) {
    if (it == pieces_.end() || it->first > at) {
      const uintptr_t end = it == pieces_.end() ? range.end : std::min(it->first, range.end);
      it = pieces_.emplace_hint(it, at, Piece{end, {}, {}});
    }
    Piece& piece = it->second;
    const auto note = [&](const Access& other, bool other_writes) {
      if (!conflict && !Before(other, moment))
        conflict = {{it->first, piece.end}, other, other_writes};
    };
    note(piece.write, true);
    if (write) {
      for (const Access& read : piece.reads) note(read, false);
      piece.write = access;
      piece.reads = {};
    } else if (piece.write != access) {  // else one operation has written and reads
      const auto kept = std::remove_if(piece.reads.begin(), piece.reads.end(),
                                       [&](const Access& read) { return Before(read, moment); });
      // What remove_if leaves behind the end is no access any more.
      std::fill(kept, piece.reads.end(), Access{});
      auto place = std::find_if(piece.reads.begin(), piece.reads.end(),
                                [](const Access& read) { return read.tick == 0; });
      if (place == piece.reads.end()) place = std::prev(place);
      *place = access;
    }
    at = piece.end;
    it = std::next(JoinBefore(it));
  }
  JoinBefore(it);
  return conflict;
}

void AccessHistory::Forget(ByteRange range) {
  if (range.begin >= range.end) return;
  const auto end = SplitAt(range.end);
  pieces_.erase(SplitAt(range.begin), end);
}

void AccessHistory::Prune(const std::function<bool(const Access&)>& is_settled) {
  for (auto it = pieces_.begin(); it != pieces_.end();) {
    Piece& piece = it->second;
    if (piece.write.tick != 0 && is_settled(piece.write)) piece.write = {};
    const auto kept = std::remove_if(piece.reads.begin(), piece.reads.end(),
                                     [&](const Access& r) { return r.tick == 0 || is_settled(r); });
    std::fill(kept, piece.reads.end(), Access{});
    const bool empty = piece.write.tick == 0 && piece.reads[0].tick == 0;
    it = empty ? pieces_.erase(it) : std::next(JoinBefore(it));
  }
}

}  // namespace octavo::emulation
