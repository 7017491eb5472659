// Every PTX instruction that kernels use, with two bodies: inline PTX under nvcc, and the emulation
// of tests. Names are those of the instructions. All take generic pointers; the conversion to
// addresses of the shared window happens here. Fragment layouts: PTX ISA, "Warp-level matrix
// instructions"; lane l has group l / 4 and number l % 4 in it.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PTX_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_PTX_CUH_

#ifndef OCTAVO_EMULATION
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#endif

#include <cstdint>

namespace octavo::cuda::ptx {

#define OCTAVO_PTX __device__ __forceinline__

#ifndef OCTAVO_EMULATION
OCTAVO_PTX uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}
#endif

// Copies 16 bytes to shared memory, both ends aligned to 16: `valid` from the source, then zeros.
// Complete after cp_wait in this thread, and for other threads after a barrier behind that.
OCTAVO_PTX void cp_async16(void* target, const void* source, int valid = 16) {
#ifdef OCTAVO_EMULATION
  emulation::CopyAsync(target, source, 16, valid);
#else
  asm volatile(
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(target)),
      "l"(source), "r"(valid)
      : "memory");
#endif
}

// Closes a group of copies, possibly an empty one.
OCTAVO_PTX void cp_commit() {
#ifdef OCTAVO_EMULATION
  emulation::CommitCopies();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all but the newest kGroups groups of this thread are complete.
template <int kGroups>
OCTAVO_PTX void cp_wait() {
#ifdef OCTAVO_EMULATION
  emulation::WaitCopies(kGroups);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#endif
}

// Loads 8x8 matrices of 16-bit elements; lane 8 m + i gives the address of row i of matrix m. Each
// lane gets elements 2 number and 2 number + 1 of row `group`; transposed, of column `group`.
OCTAVO_PTX void ldmatrix_x4(uint32_t (&r)[4], const void* row) {
#ifdef OCTAVO_EMULATION
  emulation::LoadMatrix(r, 4, false, row);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
#endif
}
OCTAVO_PTX void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row) {
#ifdef OCTAVO_EMULATION
  emulation::LoadMatrix(r, 4, true, row);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
#endif
}
OCTAVO_PTX void ldmatrix_x2(uint32_t (&r)[2], const void* row) {
#ifdef OCTAVO_EMULATION
  emulation::LoadMatrix(r, 2, false, row);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
#endif
}
OCTAVO_PTX void ldmatrix_x2_trans(uint32_t (&r)[2], const void* row) {
#ifdef OCTAVO_EMULATION
  emulation::LoadMatrix(r, 2, true, row);
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(shared_address(row))
               : "memory");
#endif
}

// Transposes an 8x8 matrix of 16-bit elements that lies across the warp.
OCTAVO_PTX uint32_t movmatrix(uint32_t value) {
#ifdef OCTAVO_EMULATION
  return emulation::TransposeMatrix(value);
#else
  uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(value));
  return result;
#endif
}

// d += a b: 16 x k times k x 8, k 16 for 16-bit and 32 for 8-bit elements. mma_e4m3 needs sm_89.
#ifdef OCTAVO_EMULATION
#define OCTAVO_PTX_MMA(name, instruction, kind, type, constraint)                   \
  OCTAVO_PTX void name(type(&d)[4], const uint32_t(&a)[4], const uint32_t(&b)[2]) { \
    emulation::Mma(emulation::MmaType::kind, d, a, b, d);                           \
  }
#else
#define OCTAVO_PTX_MMA(name, instruction, kind, type, constraint)                         \
  OCTAVO_PTX void name(type(&d)[4], const uint32_t(&a)[4], const uint32_t(&b)[2]) {       \
    asm volatile(instruction " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"     \
                 : constraint(d[0]), constraint(d[1]), constraint(d[2]), constraint(d[3]) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));     \
  }
#endif
OCTAVO_PTX_MMA(mma_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", kBF16, float, "+f")
OCTAVO_PTX_MMA(mma_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", kF16, float, "+f")
OCTAVO_PTX_MMA(mma_e4m3, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", kE4M3, float, "+f")
OCTAVO_PTX_MMA(mma_s8, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", kS8, int32_t, "+r")
#undef OCTAVO_PTX_MMA

// 2^x, within 2 ulp; 0 for -infinity, and denormal results are 0.
OCTAVO_PTX float exp2(float x) {
#ifdef OCTAVO_EMULATION
  return exp2f(x);
#else
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

// Two values rounded to nearest even, `low` in the low half.
OCTAVO_PTX uint32_t pack_bf16(float low, float high) {
#ifdef OCTAVO_EMULATION
  return static_cast<uint32_t>(emulation::ToBits(__floats2bfloat162_rn(low, high)));
#else
  uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
#endif
}
OCTAVO_PTX uint32_t pack_f16(float low, float high) {
#ifdef OCTAVO_EMULATION
  return static_cast<uint32_t>(emulation::ToBits(__floats2half2_rn(low, high)));
#else
  uint32_t result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
#endif
}
// Four values rounded to the nearest e4m3 code, ties to even, the first in the low byte. Beyond 448
// saturates, NaN is 0x7f. In hardware from sm_89 on, where products of such codes begin.
OCTAVO_PTX uint32_t pack_e4m3(float a, float b, float c, float d) {
  const uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
  const uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, __NV_E4M3);
  return low | high << 16;
}
// a - b of two fp16 each.
OCTAVO_PTX uint32_t sub_f16x2(uint32_t a, uint32_t b) {
#ifdef OCTAVO_EMULATION
  return static_cast<uint32_t>(
      emulation::ToBits(__hsub2(emulation::FromBits<__half2>(a), emulation::FromBits<__half2>(b))));
#else
  uint32_t result;
  asm("sub.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#endif
}
OCTAVO_PTX float2 unpack_bf16(uint32_t value) {
  return make_float2(__uint_as_float(value << 16), __uint_as_float(value & 0xffff0000u));
}

#undef OCTAVO_PTX

}  // namespace octavo::cuda::ptx

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PTX_CUH_
