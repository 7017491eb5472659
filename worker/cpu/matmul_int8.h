// Products with activations quantised to int8, per row and block of 32 inputs: exact integer sums
// on VNNI, folded in f32 by the same sequence for every batch size (det.2).
//
//   x_k ~ s q_k with s = max|x| / 127 over the block, q_k rounded to nearest even
//   i = sum of w_k q_k, exact in int32;  acc = fma(i, d s, acc);  acc = fma(m, s sum(q), acc)
//
// A layer takes part when its weights are stored in formats below; others run in f32. The choice is
// the layer's, never the batch's.
#ifndef OCTAVO_WORKER_CPU_MATMUL_INT8_H_
#define OCTAVO_WORKER_CPU_MATMUL_INT8_H_

#include "worker/cpu/matmul_kernels.h"
#include "worker/cpu/packed_format.h"

namespace octavo {

// Order in which a format wants the quantised inputs of a block.
enum class QuantOrder {
  kNone,     // no int8 kernel
  kNatural,  // Q8_0
  kEvenOdd,  // nibbles: each 8 inputs as 0 2 4 6 1 3 5 7
};

constexpr QuantOrder QuantOrderOf(PackFormat format) {
  switch (format) {
    case PackFormat::kQ8_0:
      return QuantOrder::kNatural;
    case PackFormat::kQ4_0:
    case PackFormat::kQ4_1:
      return QuantOrder::kEvenOdd;
    default:
      return QuantOrder::kNone;
  }
}

// REQUIRES: HasVnni() (isa.h). A tile is one row, whose record of k_blocks * 32 floats holds
// int8 q [k_blocks * 32], float s [k_blocks], float s * sum(q) [k_blocks], int32 sum(q) [k_blocks].
const MatmulKernels& MatmulKernelsInt8();

// REQUIRES: Isa::kAmx. The same bits.
const MatmulKernels& MatmulKernelsAmx();

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_MATMUL_INT8_H_
