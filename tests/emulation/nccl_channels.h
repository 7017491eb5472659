// Bytes between the processes of one group of emulated devices, over shared memory.
#ifndef OCTAVO_TESTS_EMULATION_NCCL_CHANNELS_H_
#define OCTAVO_TESTS_EMULATION_NCCL_CHANNELS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace octavo::emulation {

constexpr int kMostDevices = 8;

// Names a group to processes of the same machine and user while the one that made it lives.
struct GroupName {
  int64_t process = 0;
  int64_t descriptor = 0;
  uint64_t nonce = 0;
};

// One side of a transfer: `bytes` to or from rank `peer`.
struct Transfer {
  int peer = 0;
  const char* from = nullptr;  // sends when set
  char* to = nullptr;
  size_t bytes = 0;
  size_t done = 0;
};

// What one rank has of its group. Nothing of it is left behind when the processes have ended, also
// by a signal.
class NcclChannels {
 public:
  // False when the operating system refuses.
  static bool MakeGroup(GroupName* name);
  // nullptr when there is no such group.
  static std::unique_ptr<NcclChannels> Open(const GroupName& name, int rank, int size);
  ~NcclChannels();
  NcclChannels(const NcclChannels&) = delete;
  NcclChannels& operator=(const NcclChannels&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool AllJoined() const;
  // Moves them all at once, however the peers order theirs. False when `stop` became true first; a
  // peer that never comes, or that has died, is waited for without an end.
  bool Run(std::vector<Transfer>& transfers, const std::function<bool()>& stop);

 private:
  struct Channel;
  struct Shared;

  NcclChannels(Shared* shared, int rank, int size) : shared_(shared), rank_(rank), size_(size) {}
  // The bytes moved now.
  size_t Step(Transfer& transfer);

  Shared* const shared_;
  const int rank_;
  const int size_;
};

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_NCCL_CHANNELS_H_
