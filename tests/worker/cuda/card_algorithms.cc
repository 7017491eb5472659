// On a card, how many algorithms there are is for cuBLASLt to say.
#include "tests/emulation/matmul_algorithms.h"

namespace octavo::emulation {

int& MatmulAlgorithms() {
  static int ignored = 1;
  return ignored;
}

}  // namespace octavo::emulation
