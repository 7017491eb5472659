#include "worker/cpu/isa.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace octavo {
namespace {

bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512cd");
}

// Linux hands out the 8 KiB of tile registers to processes that ask (Documentation/arch/x86/
// xstate.rst); it refuses where some thread's signal stack is too small for them.
bool ObtainTiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-int8") &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Isa Detect() {
  if (!HasAvx512()) return Isa::kAvx2;
  return HasVnni() && ObtainTiles() ? Isa::kAmx : Isa::kAvx512;
}

}  // namespace

Isa DetectIsa() {
  static const Isa isa = Detect();
  return isa;
}

bool HasVnni() { return HasAvx512() && __builtin_cpu_supports("avx512vnni"); }

}  // namespace octavo
