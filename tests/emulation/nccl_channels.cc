#include "tests/emulation/nccl_channels.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>

namespace octavo::emulation {
namespace {

constexpr uint64_t kChannelBytes = 64 << 10;
constexpr auto kPause = std::chrono::microseconds(20);

}  // namespace

// A ring with one writer and one reader, each in a process of its own. Counts only grow.
struct NcclChannels::Channel {
  std::atomic<uint64_t> written;
  std::atomic<uint64_t> read;
  char bytes[kChannelBytes];
};

struct NcclChannels::Shared {
  uint64_t nonce;
  std::atomic<int> joined[kMostDevices];
  Channel channels[kMostDevices][kMostDevices];  // [from][to]
};

bool NcclChannels::MakeGroup(GroupName* name) {
  // Kept open: others find it through this process.
  const int descriptor = memfd_create("emulated-nccl", MFD_CLOEXEC);
  if (descriptor < 0) return false;
  std::random_device random;
  name->process = getpid();
  name->descriptor = descriptor;
  name->nonce = (uint64_t{random()} << 32) | random();
  return ftruncate(descriptor, sizeof(Shared)) == 0 &&
         pwrite(descriptor, &name->nonce, sizeof(name->nonce), 0) == sizeof(name->nonce);
}

std::unique_ptr<NcclChannels> NcclChannels::Open(const GroupName& name, int rank, int size) {
  if (rank < 0 || rank >= size || size > kMostDevices) return nullptr;
  const std::string path =
      "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.descriptor);
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (memory == MAP_FAILED) return nullptr;
  auto* shared = static_cast<Shared*>(memory);
  if (shared->nonce != name.nonce) {
    munmap(memory, sizeof(Shared));
    return nullptr;
  }
  shared->joined[rank].store(1, std::memory_order_release);
  return std::unique_ptr<NcclChannels>(new NcclChannels(shared, rank, size));
}

NcclChannels::~NcclChannels() { munmap(shared_, sizeof(Shared)); }

bool NcclChannels::AllJoined() const {
  return std::all_of(shared_->joined, shared_->joined + size_, [](const std::atomic<int>& joined) {
    return joined.load(std::memory_order_acquire) != 0;
  });
}

size_t NcclChannels::Step(Transfer& transfer) {
  const bool sends = transfer.from != nullptr;
  Channel& channel =
      sends ? shared_->channels[rank_][transfer.peer] : shared_->channels[transfer.peer][rank_];
  const uint64_t written = channel.written.load(std::memory_order_acquire);
  const uint64_t read = channel.read.load(std::memory_order_acquire);
  const uint64_t at = (sends ? written : read) % kChannelBytes;
  const uint64_t possible = sends ? kChannelBytes - (written - read) : written - read;
  const size_t bytes =
      std::min<uint64_t>({transfer.bytes - transfer.done, possible, kChannelBytes - at});
  if (bytes == 0) return 0;
  if (sends) {
    std::memcpy(channel.bytes + at, transfer.from + transfer.done, bytes);
    channel.written.store(written + bytes, std::memory_order_release);
  } else {
    std::memcpy(transfer.to + transfer.done, channel.bytes + at, bytes);
    channel.read.store(read + bytes, std::memory_order_release);
  }
  transfer.done += bytes;
  return bytes;
}

bool NcclChannels::Run(std::vector<Transfer>& transfers, const std::function<bool()>& stop) {
  while (true) {
    size_t moved = 0;
    bool all = true;
    for (Transfer& transfer : transfers) {
      moved += Step(transfer);
      all &= transfer.done == transfer.bytes;
    }
    if (all) return true;
    if (stop()) return false;
    if (moved == 0) std::this_thread::sleep_for(kPause);
  }
}

}  // namespace octavo::emulation
