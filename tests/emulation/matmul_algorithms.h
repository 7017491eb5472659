// How many algorithms the stand-in for cuBLASLt offers for a product: 1 unless a test says
// otherwise, so that nothing is timed and nothing depends on time. All compute the same bits.
#ifndef OCTAVO_TESTS_EMULATION_MATMUL_ALGORITHMS_H_
#define OCTAVO_TESTS_EMULATION_MATMUL_ALGORITHMS_H_

namespace octavo::emulation {

int& MatmulAlgorithms();

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_MATMUL_ALGORITHMS_H_
