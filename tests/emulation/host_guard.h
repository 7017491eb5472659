// Pinned memory that the device reads or writes while the host may run: its pages are closed to the
// host until the host has waited, so that a host that does not wait is seen at its first access.
#ifndef OCTAVO_TESTS_EMULATION_HOST_GUARD_H_
#define OCTAVO_TESTS_EMULATION_HOST_GUARD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tests/emulation/access_history.h"
#include "tests/emulation/stream_clock.h"

namespace octavo::emulation {

// Pages that the device writes to are closed altogether, those that it reads are open for reads.
// What lies in a closed page beside the device's bytes costs the page its guard when it is touched.
// Not in the asan build, whose runtime takes the faults.
class HostGuard {
 public:
  static constexpr size_t kMaxWatched = 4096;  // beyond: the oldest are no longer

  struct Watched {
    ByteRange bytes;
    bool device_writes = false;
    Moment moment;
    uint32_t name = 0;
  };

  // Whole pages of the host that may be closed, and memory that is about to be freed.
  void Add(ByteRange pages);
  void Remove(ByteRange pages);
  // The device will access these bytes, at any time until the host knows of the operation's end.
  void Watch(const Watched& watched);
  // The host knows these to be over.
  void Release(const Moment& host);
  // Of a fault at `address`: what is in its way; nullopt when nothing of the guard's is. The page
  // is open afterwards. `now`: whoever is ordered before it is no conflict.
  struct Fault {
    std::optional<Watched> conflict;
  };
  std::optional<Fault> Open(uintptr_t address, bool write, const Moment& now);

  // The device's own access.
  class DeviceAccess {
   public:
    DeviceAccess(HostGuard& guard, ByteRange bytes);
    ~DeviceAccess();
    DeviceAccess(const DeviceAccess&) = delete;
    DeviceAccess& operator=(const DeviceAccess&) = delete;

   private:
    HostGuard& guard_;
    const ByteRange bytes_;
  };

 private:
  struct Page {
    int reads = 0, writes = 0;  // watched
    bool opened = false;
  };
  bool Guards(ByteRange bytes) const;
  void Count(const Watched& watched, int by);
  void Protect(uintptr_t page, int protection);
  int ProtectionOf(uintptr_t page) const;

  std::map<uintptr_t, uintptr_t> guarded_;  // begin: end
  std::vector<Watched> watched_;            // oldest first
  std::map<uintptr_t, Page> pages_;         // with anything watched, by address
};

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_HOST_GUARD_H_
