#include "tests/emulation/stream_order.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "tests/emulation/emulation.h"

namespace octavo::emulation {
namespace {

// Of the operation that this thread runs, which may be a function of the host's.
thread_local const Moment* running = nullptr;

class Running {
 public:
  explicit Running(const Moment* moment) : before_(std::exchange(running, moment)) {}
  ~Running() { running = before_; }

 private:
  const Moment* const before_;
};

}  // namespace

StreamOrder::StreamOrder(VisitPending visit_pending)
    : visit_pending_(std::move(visit_pending)), host_(0), actors_{"host"} {}

StreamClock StreamOrder::AddActor(const std::string& kind) {
  for (auto it = retired_.begin(); it != retired_.end(); ++it) {
    if (!Ordered(it->actor(), it->now().tick, host())) continue;
    const StreamClock reused(Moment{it->actor(), it->now().tick, nullptr});
    retired_.erase(it);
    actors_[reused.actor()] = kind + " " + std::to_string(reused.actor());
    return reused;
  }
  const auto actor = static_cast<uint32_t>(actors_.size());
  actors_.push_back(kind + " " + std::to_string(actor));
  return StreamClock(actor);
}

void StreamOrder::RemoveActor(const StreamClock& actor) { retired_.push_back(actor); }

void StreamOrder::HostWaitsFor(const Moment& moment) {
  host_.Join(moment);
  guard_.Release(host());
}

void StreamOrder::Submit(const Operation& operation, const Moment& moment) {
  if (!GetOptions().check_order) return;
  const uint32_t name = NameOf(operation.name);
  for (const ByteRange& range : operation.reads) guard_.Watch({range, false, moment, name});
  for (const ByteRange& range : operation.writes) guard_.Watch({range, true, moment, name});
}

void StreamOrder::Run(const Operation& operation, const Moment& moment) {
  const Running self(&moment);
  if (!operation.name.empty()) Record(operation.name, operation.reads, operation.writes);
  std::vector<std::unique_ptr<HostGuard::DeviceAccess>> opened;
  for (const auto* ranges : {&operation.reads, &operation.writes})
    for (const ByteRange& range : *ranges)
      opened.push_back(std::make_unique<HostGuard::DeviceAccess>(guard_, range));
  operation.run();
}

void StreamOrder::Touch(const std::string& name, const std::vector<ByteRange>& reads,
                        const std::vector<ByteRange>& writes) {
  if (running != nullptr) Record(name, reads, writes);
}

void StreamOrder::Forget(ByteRange bytes) {
  guard_.Remove(bytes);
  history_.Forget(bytes);
}

bool StreamOrder::HostFault(uintptr_t address, bool write, std::string* report) {
  const auto fault = guard_.Open(address, write, running ? *running : host());
  if (!fault) return false;
  if (const auto& other = fault->conflict) {
    char text[100];
    std::snprintf(text, sizeof text,
                  "race between the host and a stream: the host %s 0x%zx, which ",
                  write ? "writes" : "reads", static_cast<size_t>(address));
    *report = text + Describe(other->name, other->moment.actor, other->moment.tick) +
              (other->device_writes ? " writes" : " reads") + "; the host has not waited for it";
  }
  return true;
}

uint32_t StreamOrder::NameOf(const std::string& name) {
  const auto [found, is_new] = name_ids_.try_emplace(name, static_cast<uint32_t>(names_.size()));
  if (is_new) names_.push_back(name);
  return found->second;
}

std::string StreamOrder::Describe(uint32_t name, uint32_t actor, uint32_t tick) const {
  return names_[name] + " (operation " + std::to_string(tick) + " of " + actors_[actor] + ")";
}

void StreamOrder::Record(const std::string& name, const std::vector<ByteRange>& reads,
                         const std::vector<ByteRange>& writes) {
  if (!GetOptions().check_order) return;
  if (history_.num_pieces() >= AccessHistory::kMaxPieces) Prune();
  const uint32_t id = NameOf(name);
  std::string report;
  for (const bool write : {false, true})
    for (const ByteRange& range : write ? writes : reads) {
      const auto conflict = history_.Record(range, write, *running, id);
      if (!conflict || !report.empty()) continue;
      char bytes[100];
      std::snprintf(bytes, sizeof bytes, " 0x%zx to 0x%zx, which ",
                    static_cast<size_t>(std::max(range.begin, conflict->bytes.begin)),
                    static_cast<size_t>(std::min(range.end, conflict->bytes.end)));
      const Access& other = conflict->other;
      report = "race between streams: " + Describe(id, running->actor, running->tick) +
               (write ? " writes" : " reads") + bytes +
               Describe(other.name, other.actor, other.tick) +
               (conflict->other_writes ? " writes" : " reads") + "; nothing orders the two";
    }
  if (!report.empty()) throw Error(report);
}

void StreamOrder::Prune() {
  // An access that the host knows of, and everything that has been submitted and not run.
  std::vector<Moment> pending = {host()};
  visit_pending_([&](const Moment& moment) { pending.push_back(moment); });
  history_.Prune([&](const Access& access) {
    return std::all_of(pending.begin(), pending.end(), [&](const Moment& moment) {
      return Ordered(access.actor, access.tick, moment);
    });
  });
  if (history_.num_pieces() < AccessHistory::kMaxPieces / 4 * 3) return;
  std::fprintf(stderr, "emulated device: too many accesses to order; older ones are forgotten\n");
  history_.Clear();
}

}  // namespace octavo::emulation
