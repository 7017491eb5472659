#include "tests/emulation/host_guard.h"

#include <sys/mman.h>

#include <algorithm>

#include "tests/emulation/scheduler.h"

namespace octavo::emulation {
namespace {

constexpr uintptr_t kPageBytes = 4096;

uintptr_t PageOf(uintptr_t address) { return address / kPageBytes * kPageBytes; }

}  // namespace

void HostGuard::Add(ByteRange pages) {
  if (!OCTAVO_ASAN) guarded_[pages.begin] = pages.end;
}

void HostGuard::Remove(ByteRange pages) {
  if (guarded_.erase(pages.begin) == 0) return;
  std::erase_if(watched_, [&](const Watched& watched) {
    if (watched.bytes.end <= pages.begin || watched.bytes.begin >= pages.end) return false;
    Count(watched, -1);
    return true;
  });
}

bool HostGuard::Guards(ByteRange bytes) const {
  auto it = guarded_.upper_bound(bytes.begin);
  return it != guarded_.begin() && bytes.end <= std::prev(it)->second;
}

void HostGuard::Watch(const Watched& watched) {
  if (watched.bytes.begin >= watched.bytes.end || !Guards(watched.bytes)) return;
  InstallMemoryFaultReport();
  if (watched_.size() >= kMaxWatched) {
    Count(watched_.front(), -1);
    watched_.erase(watched_.begin());
  }
  watched_.push_back(watched);
  Count(watched, 1);
}

void HostGuard::Release(const Moment& host) {
  std::erase_if(watched_, [&](const Watched& watched) {
    if (!Ordered(watched.moment.actor, watched.moment.tick, host)) return false;
    Count(watched, -1);
    return true;
  });
}

std::optional<HostGuard::Fault> HostGuard::Open(uintptr_t address, bool write, const Moment& now) {
  const auto page = pages_.find(PageOf(address));
  if (page == pages_.end()) return std::nullopt;
  page->second.opened = true;
  Protect(page->first, PROT_READ | PROT_WRITE);
  Fault fault;
  for (const Watched& watched : watched_) {
    const bool there = watched.bytes.begin <= address && address < watched.bytes.end;
    if (there && (write || watched.device_writes) &&
        !Ordered(watched.moment.actor, watched.moment.tick, now))
      fault.conflict = watched;
  }
  return fault;
}

void HostGuard::Count(const Watched& watched, int by) {
  for (uintptr_t at = PageOf(watched.bytes.begin); at < watched.bytes.end; at += kPageBytes) {
    Page& page = pages_[at];
    const int before = ProtectionOf(at);
    (watched.device_writes ? page.writes : page.reads) += by;
    // Something new to see there.
    if (by > 0) page.opened = false;
    const int after = ProtectionOf(at);
    if (by > 0 || before != after) Protect(at, after);
    if (page.reads == 0 && page.writes == 0) pages_.erase(at);
  }
}

int HostGuard::ProtectionOf(uintptr_t address) const {
  const auto page = pages_.find(address);
  if (page == pages_.end() || page->second.opened) return PROT_READ | PROT_WRITE;
  if (page->second.writes > 0) return PROT_NONE;
  return page->second.reads > 0 ? PROT_READ : PROT_READ | PROT_WRITE;
}

void HostGuard::Protect(uintptr_t page, int protection) {
  mprotect(reinterpret_cast<void*>(page), kPageBytes, protection);
}

HostGuard::DeviceAccess::DeviceAccess(HostGuard& guard, ByteRange bytes)
    : guard_(guard), bytes_(bytes) {
  auto it = guard_.pages_.lower_bound(PageOf(bytes_.begin));
  for (; it != guard_.pages_.end() && it->first < bytes_.end; ++it)
    guard_.Protect(it->first, PROT_READ | PROT_WRITE);
}

HostGuard::DeviceAccess::~DeviceAccess() {
  auto it = guard_.pages_.lower_bound(PageOf(bytes_.begin));
  for (; it != guard_.pages_.end() && it->first < bytes_.end; ++it)
    guard_.Protect(it->first, guard_.ProtectionOf(it->first));
}

}  // namespace octavo::emulation
