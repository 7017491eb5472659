// What happens to a panel's sums on the way out: bias, residual, gates. Per instruction set.
#ifndef OCTAVO_WORKER_CPU_MATMUL_FINISH_H_
#define OCTAVO_WORKER_CPU_MATMUL_FINISH_H_

#include <cstdint>

#include "worker/cpu/matmul_kernels.h"
#include "worker/cpu/matmul_prepare.h"
#include "worker/cpu/simd_bits.h"

namespace octavo::OCTAVO_SIMD {

// x / (1 + e^-t): SiLU with t = x; GELU's tanh form with t = 2 sqrt(2 / pi) (x + 0.044715 x^3),
// because (1 + tanh u) / 2 = 1 / (1 + e^-2u).
OCTAVO_SIMD_INLINE Vec Activate(FinishOp op, Vec x) {
  Vec t = x;
  if (op == FinishOp::kGeluGate) {
    const Vec cubic = Fma(Mul(Mul(x, x), x), Set1(0.044715f), x);
    t = Mul(cubic, Set1(1.5957691216f));
  }
  return Div(x, Add(Set1(1.0f), Exp(Sub(Zero(), t))));
}

inline void Gate(FinishOp op, const float* gate, const float* up, float* out, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const int64_t left = count - i;
    StorePartial(out + i, left,
                 Mul(Activate(op, LoadPartial(gate + i, left)), LoadPartial(up + i, left)));
  }
}

// sums: [rows][32], of panel `panel`, for output rows [first_row, first_row + rows).
inline void Finish(const MultiplyTask& task, int64_t panel, int64_t first_row, int64_t rows,
                   const float* sums) {
  const bool gated = task.finish == FinishOp::kSiluGate || task.finish == FinishOp::kGeluGate;
  for (int64_t r = 0; r < rows; ++r, sums += kPanelRows) {
    float* out = task.out + (first_row + r) * task.out_stride;
    if (gated) {
      const int64_t col = panel * 16;
      const int64_t left = task.out_cols - col;
      Vec gate = Load(sums);
      Vec up = Load(sums + 16);
      if (task.bias != nullptr) {
        gate = Add(gate, LoadPartial(task.bias + col, left));
        up = Add(up, LoadPartial(task.up_bias + col, left));
      }
      StorePartial(out + col, left, Mul(Activate(task.finish, gate), up));
      continue;
    }
    for (int h = 0; h < 2; ++h) {
      const int64_t col = panel * kPanelRows + h * 16;
      const int64_t left = task.out_cols - col;
      if (left <= 0) break;
      Vec value = Load(sums + h * 16);
      if (task.bias != nullptr) value = Add(value, LoadPartial(task.bias + col, left));
      if (task.finish == FinishOp::kAdd) value = Add(LoadPartial(out + col, left), value);
      StorePartial(out + col, left, value);
    }
  }
}

}  // namespace octavo::OCTAVO_SIMD

#endif  // OCTAVO_WORKER_CPU_MATMUL_FINISH_H_
