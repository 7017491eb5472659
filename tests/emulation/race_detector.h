// What the instrumentation of the race build calls at every access of a kernel. Accesses of host
// code, and those to memory that is neither shared nor the device's, pass.
#ifndef OCTAVO_TESTS_EMULATION_RACE_DETECTOR_H_
#define OCTAVO_TESTS_EMULATION_RACE_DETECTOR_H_

#include <cstddef>

namespace octavo::emulation {

void CheckAccess(void* address, size_t bytes, bool write);  // bytes: 1, 2, 4, 8 or 16, aligned
void CheckRange(void* address, size_t bytes, bool write);

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_RACE_DETECTOR_H_
