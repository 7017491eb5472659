// A launch: blocks come and go, their fibers run until the grid is done or one of them fails.
#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/emulation/scheduler.h"

namespace octavo::emulation {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kMaxBlockThreads = 1024;

double CpuMillis() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// CPU time per kernel, printed at exit.
class Profile {
 public:
  ~Profile() {
    for (const auto& [name, use] : uses_)
      fprintf(stderr, "profile %9.1f ms %6zu launches %7.0f us each %5.1f ns/switch  %s\n",
              use.millis, use.launches, use.millis * 1e3 / static_cast<double>(use.launches),
              use.millis * 1e6 / static_cast<double>(std::max<uint64_t>(1, use.switches)),
              name.c_str());
  }
  void Add(const std::string& name, double millis, uint64_t switches) {
    Use& use = uses_[name];
    use.millis += millis;
    use.launches++;
    use.switches += switches;
  }

 private:
  struct Use {
    double millis = 0;
    size_t launches = 0;
    uint64_t switches = 0;
  };
  std::map<std::string, Use> uses_;
};
Profile profile;

std::string KernelName(const void* kernel) {
  Dl_info info;
  if (!dladdr(kernel, &info) || !info.dli_sname || info.dli_saddr != kernel) return "?";
  int status = 0;
  char* demangled = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  std::string name = demangled ? demangled : info.dli_sname;
  std::free(demangled);
  return name.substr(0, name.find('('));
}

char* TakeStack() {
  Scheduler& s = *scheduler;
  if (!s.stacks.empty()) {
    char* stack = s.stacks.back();
    s.stacks.pop_back();
    ASAN_UNPOISON_MEMORY_REGION(stack, kStackBytes);
    return stack;
  }
  void* pages = mmap(nullptr, kStackBytes + kPageBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw Error("no memory for the stacks of fibers");
  mprotect(pages, kPageBytes, PROT_NONE);
  return static_cast<char*>(pages) + kPageBytes;
}

// What octavo_emulation_switch pops: six registers, then FiberMain as the address to return to.
void PrepareStack(Fiber* fiber, int index) {
  // Coloured: page-aligned tops would put all hot frames into the same few sets of the L1 cache.
  const size_t colour = static_cast<size_t>(index * 17 & 63) * 64;
  auto** top = reinterpret_cast<void**>(fiber->stack + kStackBytes - 64 - colour);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&FiberMain);
  fiber->stack_pointer = top - 6;
}

void StartBlock(int index, dim3 grid, dim3 dim, size_t shared_bytes) {
  Scheduler& s = *scheduler;
  auto* block = new Block;
  const int threads = static_cast<int>(dim.x * dim.y * dim.z);
  block->index = index;
  block->alive = threads;
  block->shared_bytes = shared_bytes;
  block->warps.resize(static_cast<size_t>(threads + 31) / 32);
  if (s.arenas.empty())
    s.arenas.push_back(static_cast<unsigned char*>(std::aligned_alloc(kSharedGap, kArenaBytes)));
  block->arena = s.arenas.back();
  s.arenas.pop_back();
  ASAN_UNPOISON_MEMORY_REGION(block->arena, kArenaBytes);
  memset(block->arena, kPoison, std::min(kArenaBytes, shared_bytes + kSharedGaps));
  ASAN_POISON_MEMORY_REGION(block->arena, kArenaBytes);
  const auto at = static_cast<unsigned>(index);
  for (int i = 0; i < threads; ++i) {
    auto* fiber = new Fiber;
    block->fibers.push_back(fiber);
    const auto linear = static_cast<unsigned>(i);
    fiber->block = block;
    fiber->linear = i;
    fiber->lane = i & 31;
    fiber->warp = i >> 5;
    fiber->thread_index = dim3(linear % dim.x, linear / dim.x % dim.y, linear / (dim.x * dim.y));
    fiber->block_dim = dim;
    fiber->grid_dim = grid;
    fiber->block_index = dim3(at % grid.x, at / grid.x % grid.y, at / (grid.x * grid.y));
    block->warps[static_cast<size_t>(fiber->warp)].lanes |= 1u << fiber->lane;
    fiber->stack = TakeStack();
    PrepareStack(fiber, i);
  }
  if (hooks) hooks->BlockBegins(block);
  s.live.push_back(block);
  Wake(block->fibers.data(), block->fibers.size(), nullptr);
}

// Everything outside the arrays must still be poison.
void CheckGaps(Block* block) {
  Scheduler& s = *scheduler;
  const size_t end = std::min(kArenaBytes, block->shared_bytes + kSharedGaps);
  size_t at = 0;
  block->arrays.push_back({end, end});
  for (size_t i = 0; i < block->arrays.size(); ++i) {
    for (; at < block->arrays[i].first; ++at) {
      if (block->arena[at] == kPoison) continue;
      char text[300];
      snprintf(
          text, sizeof text,
          "kernel %s, block %d: shared memory written out of bounds, %zu bytes after array %zu",
          s.kernel, block->index, i ? at - block->arrays[i - 1].second : 0, i ? i - 1 : 0);
      s.failed = true;
      s.message = text;
      return;
    }
    at = block->arrays[i].second;
  }
}

void EndBlock(Block* block) {
  Scheduler& s = *scheduler;
  ASAN_UNPOISON_MEMORY_REGION(block->arena, kArenaBytes);
  if (!s.failed) CheckGaps(block);
  if (hooks) hooks->BlockEnds(block);
  for (Fiber* fiber : block->fibers) {
    s.stacks.push_back(fiber->stack);
    delete fiber;
  }
  s.arenas.push_back(block->arena);
  s.live.erase(std::find(s.live.begin(), s.live.end(), block));
  delete block;
}

// Ends with its thread.
struct SchedulerOwner {
  SchedulerOwner() { scheduler = new Scheduler; }
  ~SchedulerOwner() {
    for (char* stack : scheduler->stacks) munmap(stack - kPageBytes, kStackBytes + kPageBytes);
    for (unsigned char* arena : scheduler->arenas) std::free(arena);
    delete scheduler;
    scheduler = nullptr;
  }
};

#if OCTAVO_ASAN
void FindHostStack() {
  Scheduler& s = *scheduler;
  if (s.host_stack_bottom) return;
  pthread_attr_t attributes;
  void* bottom;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &bottom, &s.host_stack_bytes);
  pthread_attr_destroy(&attributes);
  s.host_stack_bottom = bottom;
}
#endif

}  // namespace

int BlockIndex(const Block* block) { return block->index; }
int BlockThreads(const Block* block) { return static_cast<int>(block->fibers.size()); }

void RunGrid(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
             const std::function<void()>& body) {
  const Options& options = GetOptions();
  const size_t threads = size_t{block.x} * block.y * block.z;
  const size_t blocks = size_t{grid.x} * grid.y * grid.z;
  static thread_local const SchedulerOwner owner;
  InstallMemoryFaultReport();
  Scheduler& s = *scheduler;
  if (s.running) throw Error("launch from a kernel");
  if (!threads || threads > kMaxBlockThreads || !blocks || shared_bytes > kMaxSharedBytes)
    throw Error("invalid launch configuration");
  const std::string name = KernelName(kernel);
  const auto resident = static_cast<size_t>(std::max(1, options.resident_blocks));
  size_t capacity = 64;
  while (capacity < resident * threads + 1) capacity *= 2;
  s.ring.assign(capacity, nullptr);
  s.head = s.count = 0;
  s.body = &body;
  s.failed = false;
  s.kernel = name.c_str();
  s.idle_yields = 0;
  s.order = options.seed < 4 ? static_cast<int>(options.seed) : 4;
  s.random = options.seed * 0x9E3779B97F4A7C15ull + 88172645463325252ull;
#if OCTAVO_ASAN
  FindHostStack();
#endif
  if (hooks) hooks->GridBegins();
  const double start = options.profile ? CpuMillis() : 0;
  const uint64_t first_switch = s.switches;
  const bool reversed = s.order == 2 || s.order == 3;
  for (size_t next = 0; !s.failed && (next < blocks || !s.live.empty());) {
    for (; next < blocks && s.live.size() < resident; ++next)
      StartBlock(static_cast<int>(reversed ? blocks - 1 - next : next), grid, block, shared_bytes);
    s.finished = nullptr;
    SwitchTo(s.Pop());
    if (s.finished) EndBlock(s.finished);
  }
  while (!s.live.empty()) EndBlock(s.live.back());
  s.kernel = "?";
  if (options.profile) profile.Add(name, CpuMillis() - start, s.switches - first_switch);
  if (s.failed) throw Error(s.message);
  if (!hooks || !options.check_order) return;
  std::vector<ByteRange> reads, writes;
  hooks->GridEnds(&reads, &writes);
  NoteAccesses(name, reads, writes);
}

}  // namespace octavo::emulation
