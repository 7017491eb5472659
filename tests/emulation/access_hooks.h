// How the core tells the race detector what happens. Linked only into the race build.
#ifndef OCTAVO_TESTS_EMULATION_ACCESS_HOOKS_H_
#define OCTAVO_TESTS_EMULATION_ACCESS_HOOKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulation/access_history.h"

namespace octavo::emulation {

struct Block;
struct Thread;

class AccessHooks {
 public:
  virtual ~AccessHooks() = default;
  virtual void GridBegins() = 0;
  // What the grid has read and written of the device's memory; bytes that it wrote count as such.
  virtual void GridEnds(std::vector<ByteRange>* reads, std::vector<ByteRange>* writes) = 0;
  virtual void BlockBegins(Block* block) = 0;
  virtual void BlockEnds(Block* block) = 0;
  // These threads meet, and what they did before is ordered before what they do after.
  virtual void Synchronise(Block* block, Thread** threads, size_t count) = 0;
  virtual void Fence(Thread* thread, bool device) = 0;
  virtual void Atomic(Thread* thread, const void* address, size_t bytes) = 0;
  virtual void Read(Thread* thread, const void* address, size_t bytes) = 0;
  // pending: an asynchronous copy that was issued and not yet waited for.
  virtual void Write(Thread* thread, const void* address, size_t bytes, bool pending) = 0;
};
extern AccessHooks* hooks;  // nullptr: nobody listens

// Whether the address is in the running block's shared memory, and then whether it is outside all
// arrays there.
bool InShared(const void* address, size_t bytes, bool* bad);
size_t SharedOffset(const void* address);
int BlockIndex(const Block* block);
int BlockThreads(const Block* block);
// Whether the address is in the device's address space, and then whether it is outside all
// allocations.
bool InDevice(const void* address, size_t bytes, bool* bad);

// The accesses of the kernel that has just run, for the order of streams.
void NoteAccesses(const std::string& kernel, const std::vector<ByteRange>& reads,
                  const std::vector<ByteRange>& writes);
// Whether a fault of host code was one of pinned memory that a stream uses; it is reported then if
// it is a race, and the access may be done again.
bool HandleHostFault(const void* address, bool write);

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_ACCESS_HOOKS_H_
