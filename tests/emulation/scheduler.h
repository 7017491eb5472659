// Fibers, the blocks they belong to, and the run queue of one launch. Shared by the core's files.
#ifndef OCTAVO_TESTS_EMULATION_SCHEDULER_H_
#define OCTAVO_TESTS_EMULATION_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulation/access_hooks.h"
#include "tests/emulation/emulation.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define OCTAVO_ASAN 1
#else
#define OCTAVO_ASAN 0
#define ASAN_POISON_MEMORY_REGION(address, bytes) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) static_cast<void>(0)
#endif

namespace octavo::emulation {

constexpr size_t kStackBytes = OCTAVO_ASAN ? 256 << 10 : 64 << 10;
// A block's shared memory lies in an arena with room for the gaps between its arrays.
constexpr size_t kArenaBytes = 512 << 10;
constexpr size_t kSharedGap = 1024;
constexpr size_t kSharedGaps = 20 << 10;    // watched bytes past the launch's shared memory
constexpr size_t kMaxSharedBytes = 232448;  // of a block on sm_90
constexpr unsigned char kPoison = 0xFF;     // NaN in bf16, f16, f32, e4m3, e5m2

struct AsyncCopy {
  void* target;
  const void* source;
  int bytes, valid;
};

struct Fiber : Thread {
  void* stack_pointer = nullptr;
  char* stack = nullptr;
  void* fake_stack = nullptr;  // AddressSanitizer's
  bool done = false;
  const char* waits_for = nullptr;
  uint32_t wait_mask = 0;
  int wait_barrier = 0;
  Location here{"", 0};
  size_t shared_offset = 0, shared_arrays = 0;  // taken so far
  std::vector<AsyncCopy> copies;                // issued and not complete
  std::vector<int> copy_groups;                 // sizes of the committed groups, oldest first
  int uncommitted_copies = 0;
};

// Lanes of a warp that wait in one instruction. Divergent groups have disjoint masks.
struct LaneGroup {
  uint32_t mask = 0, arrived = 0;
  WarpFunction function = nullptr;
  const char* name = nullptr;
  void* operands[32];
};
struct Warp {
  LaneGroup groups[4];
  uint32_t exited = 0, lanes = 0;
};
struct BarrierState {
  int arrived = 0, expected = 0;
  std::vector<Fiber*> waiting;
};
struct Block {
  std::vector<Fiber*> fibers;
  std::vector<Warp> warps;
  BarrierState barriers[16];
  unsigned char* arena = nullptr;
  size_t shared_bytes = 0;                        // of the launch
  std::vector<std::pair<size_t, size_t>> arrays;  // taken: [begin, end) in the arena
  int alive = 0, index = 0;
};

// Runs one launch at a time; one per OS thread.
struct Scheduler {
  std::vector<Fiber*> ring;  // a power of two
  size_t head = 0, count = 0;
  void* host_stack_pointer = nullptr;
  void* host_fake_stack = nullptr;
  const void* host_stack_bottom = nullptr;
  size_t host_stack_bytes = 0;
  Fiber* running = nullptr;
  Block* finished = nullptr;
  bool failed = false;
  std::string message;
  const std::function<void()>* body = nullptr;
  uint64_t random = 1, idle_yields = 0, switches = 0;
  int order = 0;
  const char* kernel = "?";
  std::vector<Block*> live;
  std::vector<char*> stacks;  // free ones
  std::vector<unsigned char*> arenas;

  uint64_t Random();
  void Push(Fiber* fiber) { ring[(head + count++) & (ring.size() - 1)] = fiber; }
  Fiber* Pop();  // by the order
  Fiber* PopOldest();
};
// Of this OS thread. nullptr before its first launch.
extern __thread Scheduler* scheduler;

// Leaves the running context for `to`, or for the host when it is nullptr. `last`: for ever.
void SwitchTo(Fiber* to, bool last = false);
// The running fiber waits; returns when somebody has woken it. `oldest`: lets the one go on that
// has waited longest, whatever the order.
void BlockRunning(const char* what, Location here, bool oldest = false);
// The order in which they go on is part of the test.
void Wake(Fiber** fibers, size_t count, Fiber* except);
// First frame of a fiber.
void FiberMain();
const char* BaseName(const char* path);
void InstallMemoryFaultReport();

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_SCHEDULER_H_
