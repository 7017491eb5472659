// Instruction sets with kernels of their own, each containing the ones before it. All give the same
// bits in attention, kAvx512 and kAmx in every product; a worker still reports which one it runs
// (det.2).
#ifndef OCTAVO_WORKER_CPU_ISA_H_
#define OCTAVO_WORKER_CPU_ISA_H_

namespace octavo {

enum class Isa {
  kAvx2,    // AVX2, FMA, F16C: x86-64-v3, the floor of the whole build
  kAvx512,  // AVX-512 F, BW, DQ, VL, CD: x86-64-v4; int8 products also need VNNI (HasVnni)
  kAmx,     // and VNNI, and AMX tiles of bytes
};

inline constexpr Isa kIsas[] = {Isa::kAvx2, Isa::kAvx512, Isa::kAmx};

// The best one that this CPU and the operating system support. The first call asks the system for
// the tile registers, on behalf of all threads of the process.
Isa DetectIsa();

// AVX-512 with dot products of bytes.
bool HasVnni();

// "avx2", "avx512", "amx": as numeric paths and flags spell them.
constexpr const char* Name(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_ISA_H_
