// How this process's heap treats memory that it has freed.
#ifndef OCTAVO_COMMON_HEAP_H_
#define OCTAVO_COMMON_HEAP_H_

namespace octavo {

// From here on freed memory of up to 256 MiB stays with the process, and pieces of up to 32 MiB
// come from the heap, not from mmap. By default glibc gives a plan's and its events' pages back
// when they are freed, and every step pays for getting them again: 6 to 10 % of a scheduling step
// at 1,024 sequences. Call it first in main; without glibc it does nothing.
void KeepFreedHeap();

}  // namespace octavo

#endif  // OCTAVO_COMMON_HEAP_H_
