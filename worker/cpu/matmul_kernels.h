// The table of matmul kernels that each instruction set fills. Plain types only: the translation
// units behind it are compiled with their own flags (simd16.h).
#ifndef OCTAVO_WORKER_CPU_MATMUL_KERNELS_H_
#define OCTAVO_WORKER_CPU_MATMUL_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "worker/cpu/isa.h"
#include "worker/cpu/packed_format.h"

namespace octavo {

// Rows that preparation interleaves at a time.
constexpr int kInterleavedRows = 4;

// A chunk of activation rows on its way into a product. Rows are cut into tiles of nearly equal
// size; a tile of R rows is stored k-major, [k][R], so that a kernel reads it front to back.
struct PrepareTask {
  const float* x = nullptr;  // [*, cols]
  int64_t stride = 0;
  const int32_t* row_ids = nullptr;  // [rows]: rows of x; nullptr: 0, 1, 2, ...
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t k_blocks = 0;                // ceil(cols / 32); the rest is filled with zeros
  const float* norm_weight = nullptr;  // [cols]; nullptr: no norm
  float eps = 0;
  bool round_to_bf16 = false;
  bool even_odd = false;   // int8 only: QuantOrder::kEvenOdd (matmul_int8.h)
  int64_t first_tile = 0;  // to prepare, of the chunk's tiles
  int64_t last_tile = 0;
  float* tiles = nullptr;    // out: [tile][k_blocks * 32][R]
  float* sums = nullptr;     // out: [tile][k_blocks][R], sums of x over each block
  float* staging = nullptr;  // scratch, [kInterleavedRows][k_blocks * 32]
};

enum class FinishOp { kStore, kAdd, kSiluGate, kGeluGate };

struct MultiplyTask {
  PackFormat format = PackFormat::kF32;
  const uint8_t* panels = nullptr;  // of the segment
  int64_t panel_bytes = 0;
  int64_t k_blocks = 0;
  int64_t first_panel = 0;
  int64_t last_panel = 0;
  const float* tiles = nullptr;  // as PrepareTask leaves them
  const float* sums = nullptr;
  int64_t rows = 0;
  bool even_odd = false;      // as of PrepareTask
  float* arranged = nullptr;  // scratch of arranged_floats, what `arrange` left there
  FinishOp finish = FinishOp::kStore;
  float* out = nullptr;  // [rows, out_cols]: the segment's columns of the first row
  int64_t out_stride = 0;
  int64_t out_cols = 0;            // gates: half the segment's rows
  const float* bias = nullptr;     // [out_cols]; nullptr: none
  const float* up_bias = nullptr;  // [out_cols]; gates only
  float* decoded = nullptr;        // scratch of decoded_floats
  float* sums_out = nullptr;       // scratch, [rows][32]
};

struct MatmulKernels {
  int64_t (*tile_count)(int64_t rows);
  void (*prepare)(const PrepareTask& task);
  // Before its first multiplication of a chunk, each thread lays the prepared rows out for itself;
  // nullptr: as they are. The task names neither panels nor results yet.
  int64_t (*arranged_floats)(int64_t rows, int64_t k_blocks);
  void (*arrange)(const MultiplyTask& task);
  void (*multiply)(const MultiplyTask& task);
  // gate[i] = act(gate[i]) * up[i], the arithmetic of the fused gates.
  void (*gate)(FinishOp op, const float* gate, const float* up, float* out, int64_t count);
  void (*normalize)(const float* x, const float* weight, float eps, int64_t cols, float* out);
  int64_t decoded_floats;
};

const MatmulKernels& MatmulKernelsAvx2();
const MatmulKernels& MatmulKernelsAvx512();

inline const MatmulKernels& KernelsFor(Isa isa) {
  return isa == Isa::kAvx2 ? MatmulKernelsAvx2() : MatmulKernelsAvx512();
}

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_MATMUL_KERNELS_H_
