// Finds accesses of streams and of the host to the same bytes that nothing orders, in whatever
// order they happened to run: a happens-before detector for copies, kernels and library calls.
// Streams are ordered by events, by the host, and by what synchronises them; graphs replay as the
// operations that they recorded.
//
// Limits: all host threads count as one, in the order of their calls; kernels are seen in the race
// build alone, other operations in every build; host code is seen where it touches pinned memory.
#ifndef OCTAVO_TESTS_EMULATION_STREAM_ORDER_H_
#define OCTAVO_TESTS_EMULATION_STREAM_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/emulation/access_history.h"
#include "tests/emulation/host_guard.h"
#include "tests/emulation/stream_clock.h"

namespace octavo::emulation {

// Work of a stream that touches memory.
struct Operation {
  std::string name;  // empty: of a kernel, whose name and accesses are known when it has run
  std::function<void()> run;
  std::vector<ByteRange> reads, writes;
};

// REQUIRES in all members: the runtime's lock is held.
class StreamOrder {
 public:
  // `visit_pending` calls its argument with the moment of every operation that has not run.
  using VisitPending = std::function<void(const std::function<void(const Moment&)>&)>;
  explicit StreamOrder(VisitPending visit_pending);

  // `kind`: what an actor is called in reports.
  StreamClock AddActor(const std::string& kind);
  // What it did stays known. Its number serves again once the host knows all of that.
  void RemoveActor(const StreamClock& actor);

  // The host has waited for what this moment is or follows.
  void HostWaitsFor(const Moment& moment);
  // What the host knows, which every operation that it submits from now on follows.
  const Moment& host() const { return host_.now(); }

  // The host submits the operation.
  void Submit(const Operation& operation, const Moment& moment);
  // Runs it. Throws Error with a report of the first conflict, or what the operation throws.
  void Run(const Operation& operation, const Moment& moment);
  // Accesses of the operation that this thread runs, if it does.
  void Touch(const std::string& name, const std::vector<ByteRange>& reads,
             const std::vector<ByteRange>& writes);

  // Memory of the host that the device reads and writes.
  void AddPinned(ByteRange pages) { guard_.Add(pages); }
  // The memory is given back: device's or pinned.
  void Forget(ByteRange bytes);
  // A fault of the host. False: not of pinned memory that is watched. Else the access may be done
  // again, and `report` says what is wrong with it, or nothing.
  bool HostFault(uintptr_t address, bool write, std::string* report);

 private:
  uint32_t NameOf(const std::string& name);
  void Record(const std::string& name, const std::vector<ByteRange>& reads,
              const std::vector<ByteRange>& writes);
  std::string Describe(uint32_t name, uint32_t actor, uint32_t tick) const;
  void Prune();

  const VisitPending visit_pending_;
  StreamClock host_;
  std::vector<std::string> actors_;  // [actor]
  std::vector<StreamClock> retired_;
  std::vector<std::string> names_;  // of operations
  std::map<std::string, uint32_t> name_ids_;
  AccessHistory history_;
  HostGuard guard_;
};

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_STREAM_ORDER_H_
