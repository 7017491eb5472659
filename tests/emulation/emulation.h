// CUDA kernels as host code, for tests: every CUDA thread is a fiber, a block is a set of fibers on
// one OS thread, and the lanes of a warp exchange operands through per-warp slots. This header is
// what the built-ins of cuda_shim.h, the second bodies of ptx.cuh and the tests call; docs/cuda.md
// says how the pieces fit.
#ifndef OCTAVO_TESTS_EMULATION_EMULATION_H_
#define OCTAVO_TESTS_EMULATION_EMULATION_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

// The race build instruments kernels; what of the shim is inlined into them must not be.
#define OCTAVO_EMULATION_API __attribute__((noinline, no_sanitize("thread")))

namespace octavo::emulation {

// Where in a kernel a call stands; the default arguments of the built-ins fill it in.
struct Location {
  const char* file;
  int line;
};
#define OCTAVO_EMULATION_HERE \
  ::octavo::emulation::Location here = {__builtin_FILE(), __builtin_LINE()}

struct Block;
// What a kernel can see of itself.
struct Thread {
  dim3 thread_index, block_index, block_dim, grid_dim;
  int lane, warp, linear;
  Block* block;
};
extern __thread Thread* current;  // nullptr outside kernels. __thread: no wrapper on each access

struct Options {
  // Order of fibers, time of asynchronous copies and progress of streams. 0: first in, first out;
  // 1: last in, first out (a warp runs far ahead); 2 and 3: the same reversed; from 4 on random.
  uint64_t seed = 0;
  int resident_blocks = 1;     // blocks of a grid that are interleaved
  bool eager_streams = false;  // run work when it is submitted, not as late as is legal
  bool check_order = false;    // report accesses of streams that nothing orders
  bool profile = false;        // print CPU time per kernel at exit
  int64_t device_bytes = int64_t{8} << 30;  // what cudaMalloc may lend in total
  int multiprocessors = 4;
  int capability = 90;  // 10 major + minor
};
// Starts from OCTAVO_EMU_SEED, OCTAVO_EMU_RESIDENT, OCTAVO_EMU_STREAMS (eager, lazy),
// OCTAVO_EMU_ORDER (1 in the race build), OCTAVO_EMU_PROFILE, OCTAVO_EMU_DEVICE_BYTES,
// OCTAVO_EMU_CAPABILITY.
Options& GetOptions();

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Ends the launch with a message that names kernel, block and thread.
[[noreturn]] void Fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Runs a whole grid now. Throws Error with what the kernel did wrong.
void RunGrid(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
             const std::function<void()>& body);
// Queues work on a stream of the stand-in runtime.
cudaError_t Submit(cudaStream_t stream, std::function<void()> work);
// The message of the sticky error, which is cleared together with all queued work.
std::string TakeError();

// A named defect that kernels under test carry, off unless planted: OCTAVO_UNLESS_PLANTED in
// plant.cuh leaves its statement out. Empty: none.
void Plant(const char* bug);
bool IsPlanted(const char* bug);

// ---- What kernels call.
using WarpFunction = void (*)(void** operands, uint32_t mask);
// Returns when all lanes of the mask are here; `function` runs once for all of them, with each
// lane's operands. `memory`: orders memory, as __syncwarp does and a shuffle does not.
void Collective(const char* name, uint32_t mask, void* operands, WarpFunction function, bool memory,
                Location here);
void Barrier(int id, int threads, Location here);  // threads 0: the whole block
void Yield(Location here);
void Fence(bool device);
void* TakeShared(size_t bytes, size_t align);
uint32_t ActiveMask();
void AtomicAccess(const void* address, size_t bytes);
void TouchRead(const void* address, size_t bytes);
void TouchWrite(const void* address, size_t bytes);
void CheckShared(const void* address, size_t bytes, size_t align, const char* what);

void CopyAsync(void* target, const void* source, int bytes, int valid);
void CommitCopies();
void WaitCopies(int newest_groups_left);

enum class Shuffle { kIndex, kUp, kDown, kXor };
enum class Vote { kBallot, kAny, kAll, kMatch };
enum class Reduce { kAdd, kAnd, kOr, kXor, kMinUnsigned, kMaxUnsigned, kMin, kMax };
uint64_t ShuffleWord(Shuffle kind, uint32_t mask, uint64_t value, int by, int width, Location here);
uint32_t VoteWord(Vote kind, uint32_t mask, uint32_t value, Location here);
uint32_t ReduceWord(Reduce kind, uint32_t mask, uint32_t value, Location here);

void LoadMatrix(uint32_t* registers, int matrices, bool transpose, const void* row);
uint32_t TransposeMatrix(uint32_t value);
// kBF16, kF16: m16n8k16; kE4M3, kS8: m16n8k32. Accumulators are f32, of kS8 s32.
enum class MmaType { kBF16, kF16, kE4M3, kS8 };
void Mma(MmaType type, void* d, const uint32_t* a, const uint32_t* b, const void* c);

template <class T>
inline uint64_t ToBits(T value) {
  static_assert(sizeof(T) <= 8);  // __nv_bfloat162 is not trivially copyable to g++
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const void*>(&value), sizeof value);
  return bits;
}
template <class T>
inline T FromBits(uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return value;
}
template <class T, class F>
OCTAVO_EMULATION_API T ReadModifyWrite(T* address, F next) {
  AtomicAccess(address, sizeof(T));
  const T old = *address;
  *address = next(old);
  return old;
}

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_EMULATION_H_
