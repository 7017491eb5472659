// The functions that -fsanitize=thread makes code call, in place of libtsan. Atomics of host code
// that shares a source file with kernels (reference counts) just happen.
#include <cstddef>
#include <cstdint>

#include "tests/emulation/race_detector.h"

using octavo::emulation::CheckAccess;
using octavo::emulation::CheckRange;

#define OCTAVO_ENTRY(kind, bytes, write) \
  void __tsan_##kind##bytes(void* address) { CheckAccess(address, bytes, write); }
#define OCTAVO_ENTRIES(bytes)                \
  OCTAVO_ENTRY(read, bytes, false)           \
  OCTAVO_ENTRY(write, bytes, true)           \
  OCTAVO_ENTRY(unaligned_read, bytes, false) \
  OCTAVO_ENTRY(unaligned_write, bytes, true) \
  OCTAVO_ENTRY(volatile_read, bytes, false)  \
  OCTAVO_ENTRY(volatile_write, bytes, true)
#define OCTAVO_FETCH(bits, name, builtin)                                       \
  uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t* address, \
                                              uint##bits##_t value, int) {      \
    return builtin(address, value, __ATOMIC_SEQ_CST);                           \
  }
#define OCTAVO_EXCHANGE(bits, name)                                                             \
  bool __tsan_atomic##bits##_##name(volatile uint##bits##_t* address, uint##bits##_t* expected, \
                                    uint##bits##_t value, int, int) {                           \
    return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST,       \
                                       __ATOMIC_SEQ_CST);                                       \
  }
#define OCTAVO_ATOMICS(bits)                                                                      \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* address, int) {        \
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                            \
  }                                                                                               \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* address, uint##bits##_t value, int) { \
    __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                           \
  }                                                                                               \
  OCTAVO_FETCH(bits, exchange, __atomic_exchange_n)                                               \
  OCTAVO_FETCH(bits, fetch_add, __atomic_fetch_add)                                               \
  OCTAVO_FETCH(bits, fetch_sub, __atomic_fetch_sub)                                               \
  OCTAVO_FETCH(bits, fetch_and, __atomic_fetch_and)                                               \
  OCTAVO_FETCH(bits, fetch_or, __atomic_fetch_or)                                                 \
  OCTAVO_FETCH(bits, fetch_xor, __atomic_fetch_xor)                                               \
  OCTAVO_EXCHANGE(bits, compare_exchange_strong)                                                  \
  OCTAVO_EXCHANGE(bits, compare_exchange_weak)

extern "C" {
OCTAVO_ENTRIES(1)
OCTAVO_ENTRIES(2)
OCTAVO_ENTRIES(4)
OCTAVO_ENTRIES(8)
OCTAVO_ENTRIES(16)
OCTAVO_ATOMICS(8)
OCTAVO_ATOMICS(16)
OCTAVO_ATOMICS(32)
OCTAVO_ATOMICS(64)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}
void __tsan_read_range(void* address, long bytes) {
  CheckRange(address, static_cast<size_t>(bytes), false);
}
void __tsan_write_range(void* address, long bytes) {
  CheckRange(address, static_cast<size_t>(bytes), true);
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
}
