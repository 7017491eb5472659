// ldmatrix, movmatrix and mma.sync with the fragment layouts of the PTX ISA, section "Warp-level
// matrix instructions". Products are exact and sums run in order of k in f32; the order and the
// rounding of hardware differ, so results compare within a tolerance.
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <array>
#include <cstring>
#include <memory>
#include <type_traits>

#include "tests/emulation/scheduler.h"

namespace octavo::emulation {
namespace {

constexpr Location kInstruction{"ptx", 0};

struct LoadOperands {
  const void* row;
  uint32_t* registers;
  int matrices;
  bool transpose;
};

// Lane 8 m + i names row i of matrix m. Lane l gets elements 2 (l % 4) and the next of row l / 4,
// transposed of column l / 4.
void RunLoad(void** operands, uint32_t) {
  auto lane = [&](int i) { return static_cast<LoadOperands*>(operands[i]); };
  const int matrices = lane(0)->matrices;
  const bool transpose = lane(0)->transpose;
  for (int l = 0; l < 32; ++l)
    for (int m = 0; m < matrices; ++m) {
      uint32_t* out = lane(l)->registers + m;
      auto row = [&](int i) { return static_cast<const uint16_t*>(lane(8 * m + i)->row); };
      const int pair = 2 * (l & 3), major = l >> 2;
      if (transpose)
        *out = row(pair)[major] | static_cast<uint32_t>(row(pair + 1)[major]) << 16;
      else
        memcpy(out, row(major) + pair, sizeof *out);
    }
}

struct MoveOperands {
  uint32_t value, result;
};

void RunTranspose(void** operands, uint32_t) {
  auto lane = [&](int i) { return static_cast<MoveOperands*>(operands[i]); };
  auto element = [&](int row, int col) {
    return lane(row * 4 + col / 2)->value >> 16 * (col & 1) & 0xffff;
  };
  for (int l = 0; l < 32; ++l) {
    const int pair = 2 * (l & 3);
    lane(l)->result = element(pair, l >> 2) | element(pair + 1, l >> 2) << 16;
  }
}

const float* HalfValues() {
  static const auto values = [] {
    auto table = std::make_unique<std::array<float, 65536>>();
    for (size_t i = 0; i < table->size(); ++i) {
      __half_raw raw;
      raw.x = static_cast<unsigned short>(i);
      (*table)[i] = __half2float(__half(raw));
    }
    return table;
  }();
  return values->data();
}

const float* E4M3Values() {
  static const auto values = [] {
    auto table = std::make_unique<std::array<float, 256>>();
    for (size_t i = 0; i < table->size(); ++i) {
      __nv_fp8_e4m3 element;
      element.__x = static_cast<unsigned char>(i);
      (*table)[i] = static_cast<float>(element);
    }
    return table;
  }();
  return values->data();
}

struct MmaOperands {
  const uint32_t *a, *b;
  const void* c;
  void* d;
};

template <MmaType kType>
void RunMma(void** operands, uint32_t) {
  constexpr bool kEightBit = kType == MmaType::kE4M3 || kType == MmaType::kS8;
  constexpr int kDepth = kEightBit ? 32 : 16;
  constexpr int kPacked = kEightBit ? 4 : 2;  // elements in a register
  using Element = std::conditional_t<kType == MmaType::kS8, int32_t, float>;
  typedef Element Vector __attribute__((vector_size(32)));
  Element a[16][kDepth];
  Vector b[kDepth], c[16];
  [[maybe_unused]] const float* halves = kType == MmaType::kF16 ? HalfValues() : nullptr;
  [[maybe_unused]] const float* e4m3s = kType == MmaType::kE4M3 ? E4M3Values() : nullptr;
  auto decode = [&](uint32_t word, int i) -> Element {
    if constexpr (kType == MmaType::kBF16)
      return FromBits<float>(i ? word & 0xffff0000u : word << 16);
    else if constexpr (kType == MmaType::kF16)
      return halves[word >> 16 * i & 0xffff];
    else if constexpr (kType == MmaType::kE4M3)
      return e4m3s[word >> 8 * i & 0xff];
    else
      return static_cast<int8_t>(word >> 8 * i & 0xff);
  };
  for (int l = 0; l < 32; ++l) {
    const auto* lane = static_cast<MmaOperands*>(operands[l]);
    const int group = l >> 2, in_group = l & 3;
    for (int i = 0; i < 4; ++i)
      for (int e = 0; e < kPacked; ++e)
        a[group + (i & 1) * 8][in_group * kPacked + (i >> 1) * (kDepth / 2) + e] =
            decode(lane->a[i], e);
    for (int i = 0; i < 2; ++i)
      for (int e = 0; e < kPacked; ++e)
        b[in_group * kPacked + i * (kDepth / 2) + e][group] = decode(lane->b[i], e);
    for (int i = 0; i < 4; ++i)
      c[group + (i >> 1) * 8][in_group * 2 + (i & 1)] = static_cast<const Element*>(lane->c)[i];
  }
  for (int row = 0; row < 16; row += 4) {  // four independent chains hide the latency of adding
    Vector c0 = c[row], c1 = c[row + 1], c2 = c[row + 2], c3 = c[row + 3];
    for (int k = 0; k < kDepth; ++k) {
      c0 += a[row][k] * b[k];
      c1 += a[row + 1][k] * b[k];
      c2 += a[row + 2][k] * b[k];
      c3 += a[row + 3][k] * b[k];
    }
    c[row] = c0, c[row + 1] = c1, c[row + 2] = c2, c[row + 3] = c3;
  }
  for (int l = 0; l < 32; ++l) {
    const int group = l >> 2, in_group = l & 3;
    auto* d = static_cast<Element*>(static_cast<MmaOperands*>(operands[l])->d);
    for (int i = 0; i < 4; ++i) d[i] = c[group + (i >> 1) * 8][in_group * 2 + (i & 1)];
  }
}

}  // namespace

void LoadMatrix(uint32_t* registers, int matrices, bool transpose, const void* row) {
  LoadOperands operands{row, registers, matrices, transpose};
  if (current->lane < 8 * matrices) {
    CheckShared(row, 16, 16, "ldmatrix");
    TouchRead(row, 16);
  }
  Collective("ldmatrix", ~0u, &operands, RunLoad, false, kInstruction);
}

uint32_t TransposeMatrix(uint32_t value) {
  MoveOperands operands{value, 0};
  Collective("movmatrix", ~0u, &operands, RunTranspose, false, kInstruction);
  return operands.result;
}

void Mma(MmaType type, void* d, const uint32_t* a, const uint32_t* b, const void* c) {
  MmaOperands operands{a, b, c, d};
  static constexpr WarpFunction kFunctions[] = {RunMma<MmaType::kBF16>, RunMma<MmaType::kF16>,
                                                RunMma<MmaType::kE4M3>, RunMma<MmaType::kS8>};
  static constexpr const char* kNames[] = {"mma.bf16", "mma.f16", "mma.e4m3", "mma.s8"};
  const auto index = static_cast<size_t>(type);
  Collective(kNames[index], ~0u, &operands, kFunctions[index], false, kInstruction);
}

}  // namespace octavo::emulation
