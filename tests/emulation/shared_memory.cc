// Arrays in shared memory with watched gaps between them, and asynchronous copies into them.
#include <cstring>

#include "tests/emulation/scheduler.h"

namespace octavo::emulation {
namespace {

size_t OffsetIn(const Block* block, const void* address) {
  return static_cast<size_t>(static_cast<const unsigned char*>(address) - block->arena);
}

bool InsideArray(const Block* block, size_t offset, size_t bytes) {
  for (const auto& [begin, end] : block->arrays)
    if (offset >= begin && offset + bytes <= end) return true;
  return false;
}

void Copy(const AsyncCopy& copy) {
  memcpy(copy.target, copy.source, static_cast<size_t>(copy.valid));
  memset(static_cast<char*>(copy.target) + copy.valid, 0,
         static_cast<size_t>(copy.bytes - copy.valid));
}

}  // namespace

void AtomicAccess(const void* address, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes) Fail("misaligned atomic at %p", address);
  if (hooks) hooks->Atomic(current, address, bytes);
}
void Fence(bool device) {
  if (hooks) hooks->Fence(current, device);
}
void TouchRead(const void* address, size_t bytes) {
  if (hooks) hooks->Read(current, address, bytes);
}
void TouchWrite(const void* address, size_t bytes) {
  if (hooks) hooks->Write(current, address, bytes, false);
}

void* TakeShared(size_t bytes, size_t align) {
  Fiber* fiber = scheduler->running;
  Block* block = fiber->block;
  fiber->shared_offset = (fiber->shared_offset + align - 1) & ~(align - 1);
  const size_t index = fiber->shared_arrays++;
  const size_t begin = fiber->shared_offset + (index + 1) * kSharedGap;  // keeps the alignment
  fiber->shared_offset += bytes;
  if (fiber->shared_offset > block->shared_bytes)
    Fail("shared memory: kernel takes %zu bytes, launch gave %zu", fiber->shared_offset,
         block->shared_bytes);
  if ((index + 2) * kSharedGap > kSharedGaps) Fail("shared memory: more than 18 arrays");
  const std::pair<size_t, size_t> array(begin, begin + bytes);
  if (index >= block->arrays.size()) {
    block->arrays.push_back(array);
    ASAN_UNPOISON_MEMORY_REGION(block->arena + begin, bytes);
  } else if (block->arrays[index] != array) {
    Fail("shared memory: threads of the block take different arrays");
  }
  return block->arena + begin;
}

void CheckShared(const void* address, size_t bytes, size_t align, const char* what) {
  const Block* block = scheduler->running->block;
  const size_t offset = OffsetIn(block, address);
  if (reinterpret_cast<uintptr_t>(address) % align)
    Fail("%s: address %p is not %zu-byte aligned", what, address, align);
  if (InsideArray(block, offset, bytes)) return;
  if (offset < kArenaBytes)
    for (size_t i = 0; i < block->arrays.size(); ++i) {
      const auto& [begin, end] = block->arrays[i];
      if (offset < end + kSharedGap / 2)
        Fail("%s: shared memory out of bounds: %zu bytes at offset %td of array %zu (size %zu)",
             what, bytes, static_cast<ptrdiff_t>(offset - begin), i, end - begin);
    }
  Fail("%s: %p is not shared memory of this block", what, address);
}

bool InShared(const void* address, size_t bytes, bool* bad) {
  const Block* block = scheduler->running->block;
  const size_t offset = OffsetIn(block, address);
  if (offset >= kArenaBytes) return false;
  *bad = !InsideArray(block, offset, bytes);
  return true;
}
size_t SharedOffset(const void* address) { return OffsetIn(scheduler->running->block, address); }

// The hardware may copy at any time between issue and wait: early, late, or now this, now that. An
// early copy shows a slot that is overwritten while it is read, a late one a wait that is missing.
void CopyAsync(void* target, const void* source, int bytes, int valid) {
  const auto size = static_cast<size_t>(bytes);
  CheckShared(target, size, size, "cp.async");
  if (valid && reinterpret_cast<uintptr_t>(source) % size)
    Fail("cp.async: source %p is not %d-byte aligned", source, bytes);
  Fiber* fiber = scheduler->running;
  const uint64_t time = GetOptions().seed % 3;
  const bool early = time == 1 || (time == 2 && (scheduler->Random() & 1));
  const AsyncCopy copy{target, source, bytes, valid};
  if (early) Copy(copy);
  if (hooks) hooks->Write(current, target, size, true);
  fiber->copies.push_back(copy);
  fiber->uncommitted_copies++;
}

void CommitCopies() {
  Fiber* fiber = scheduler->running;
  fiber->copy_groups.push_back(fiber->uncommitted_copies);
  fiber->uncommitted_copies = 0;
}

void WaitCopies(int newest_groups_left) {
  Fiber* fiber = scheduler->running;
  int complete = 0;
  while (static_cast<int>(fiber->copy_groups.size()) > newest_groups_left) {
    complete += fiber->copy_groups.front();
    fiber->copy_groups.erase(fiber->copy_groups.begin());
  }
  for (int i = 0; i < complete; ++i) {
    const AsyncCopy& copy = fiber->copies[static_cast<size_t>(i)];
    Copy(copy);
    if (!hooks) continue;
    hooks->Read(current, copy.source, static_cast<size_t>(copy.valid));
    hooks->Write(current, copy.target, static_cast<size_t>(copy.bytes), false);
  }
  fiber->copies.erase(fiber->copies.begin(), fiber->copies.begin() + complete);
}

}  // namespace octavo::emulation
