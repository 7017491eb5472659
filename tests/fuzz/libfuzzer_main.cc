// OCTAVO_FUZZ_BODY names the body that this target runs.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/checkpoint_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  octavo::OCTAVO_FUZZ_BODY(data, size);
  return 0;
}
