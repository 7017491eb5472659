// Instruction sets with kernels of their own. Both give the same bits in attention; a worker still
// reports which one it runs (det.2).
#ifndef OCTAVO_WORKER_CPU_ISA_H_
#define OCTAVO_WORKER_CPU_ISA_H_

namespace octavo {

enum class Isa {
  kAvx2,    // AVX2, FMA, F16C: x86-64-v3, the floor of the whole build
  kAvx512,  // AVX-512 F, BW, DQ, VL, CD: x86-64-v4
};

// The best one that this CPU and the operating system support.
inline Isa DetectIsa() {
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  return avx512 ? Isa::kAvx512 : Isa::kAvx2;
}

// AVX-512 with dot products of bytes.
inline bool HasVnni() {
  return DetectIsa() == Isa::kAvx512 && __builtin_cpu_supports("avx512vnni");
}

// "avx2", "avx512": as numeric paths and flags spell them.
constexpr const char* Name(Isa isa) { return isa == Isa::kAvx512 ? "avx512" : "avx2"; }

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_ISA_H_
