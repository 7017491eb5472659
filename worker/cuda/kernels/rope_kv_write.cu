// A head of a row (q, k or v) belongs to a group of 8, 16 or 32 lanes with 8 elements each, so that
// 16-bit rows are stored in 16-byte chunks and 8-bit rows in halves of one. Blocks of 128 threads
// are 16, 8 or 4 heads. Per element: 4 bytes in, 4 out for q and k, 1 or 2 out into the pool; 32
// bytes in flight per thread. A head passes through shared memory twice at most: for the norm,
// whose sum has the CPU backend's order, and for the rotation, whose partner may be any other
// lane's.
#include "worker/cuda/kernels/rope_kv_write.h"

#include <algorithm>

#include "worker/cuda/kernels/kv_rounding.cuh"
#include "worker/cuda/kernels/launch.cuh"
#include "worker/cuda/kernels/plant.cuh"
#include "worker/cuda/kernels/row_access.cuh"
#include "worker/cuda/kernels/shape_check.h"
#include "worker/cuda/kernels/smem.cuh"

namespace octavo::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kMaxHeadDim = 256;

// 1 / sqrt(mean(x^2) + eps) of a head in shared memory, in every lane of its group. Sixteen partial
// sums of squares, then a tree, as worker/cpu/rope.cc has it: lanes j, j + 8, ... hold sums j and
// j + 8 of the sixteen.
__device__ __forceinline__ float InverseHeadRms(const float* head, int head_dim, float eps) {
  const int j = static_cast<int>(threadIdx.x) % 8;
  float low = 0.0f, high = 0.0f;
  for (int d = j; d < head_dim; d += 16) low = fmaf(head[d], head[d], low);
  for (int d = j + 8; d < head_dim; d += 16) high = fmaf(head[d], head[d], high);
  float sum = __fadd_rn(low, high);
#pragma unroll
  for (int by = 4; by > 0; by /= 2) sum = __fadd_rn(sum, __shfl_xor_sync(~0u, sum, by));
  const float mean = __fdiv_rn(sum, static_cast<float>(head_dim));
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, eps)));
}

// v = elements [first, first + 8) of the head, rotated; the head is in shared memory.
__device__ __forceinline__ void Rotate(const RopeKvWriteArgs& a, const float* cos_sin,
                                       const float* head, int first, float (&v)[kRowStep]) {
  const int pairs = a.rotary_dim / 2;
#pragma unroll
  for (int i = 0; i < kRowStep; ++i) {
    const int d = first + i;
    if (d >= a.rotary_dim) continue;
    const bool is_first = a.interleaved ? d % 2 == 0 : d < pairs;
    const int pair = a.interleaved ? d / 2 : is_first ? d : d - pairs;
    const int partner = a.interleaved ? d ^ 1 : is_first ? d + pairs : pair;
    const float2 turn = __ldg(reinterpret_cast<const float2*>(cos_sin) + pair);
    const float across = __fmul_rn(head[partner], turn.y);
    v[i] = __fadd_rn(__fmul_rn(head[d], turn.x), is_first ? -across : across);
  }
}

// Eight elements of a head into the pool. All lanes of the warp call it; `active` ones store.
template <int kGroup>
__device__ __forceinline__ void WriteRow(const PagedKv& kv, int keys_or_values, int kv_head,
                                         int64_t slot, int lane, bool active,
                                         const float (&v)[kRowStep]) {
  const int shift = __ffs(kv.block_size) - 1;
  std::byte* block = kv.data + (slot >> shift) * kv.block_stride;
  const int in_block = static_cast<int>(slot & (kv.block_size - 1));
  std::byte* row = block + RowOffset(kv, keys_or_values, kv_head, in_block);
  const int chunks = RowBytes(kv.dtype, kv.head_dim) / kChunkBytes;

  if (kv.dtype == DType::kBF16 || kv.dtype == DType::kF16) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = kv.dtype == DType::kBF16
                     ? RoundToBfloat(v[2 * i]) | RoundToBfloat(v[2 * i + 1]) << 16
                     : RoundToHalf(v[2 * i]) | RoundToHalf(v[2 * i + 1]) << 16;
    if (active)
      *reinterpret_cast<uint4*>(row + StoredChunk(lane, chunks, in_block) * kChunkBytes) =
          make_uint4(words[0], words[1], words[2], words[3]);
    return;
  }
  float scale = 1.0f;
  if (kv.dtype == DType::kI8) {
    float largest = 0.0f;
    int nan = 0;
#pragma unroll
    for (int i = 0; i < kRowStep; ++i) {
      largest = fmaxf(largest, fabsf(v[i]));  // of a NaN and a number, the number
      nan |= v[i] != v[i];
    }
#pragma unroll
    for (int by = kGroup / 2; by > 0; by /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, by));
      nan |= __shfl_xor_sync(~0u, nan, by);
    }
    const uint32_t bits = Int8Scale(largest);
    scale = __half2float(__ushort_as_half(static_cast<uint16_t>(bits)));
    if (active && lane == 0)
      *reinterpret_cast<uint16_t*>(block + ScaleOffset(kv, keys_or_values, kv_head, in_block)) =
          static_cast<uint16_t>(nan ? kNanScale : bits);
  }
  uint32_t words[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < kRowStep; ++i) {
    const uint32_t code = kv.dtype == DType::kI8       ? RoundToInt8(v[i], scale)
                          : kv.dtype == DType::kF8E4M3 ? RoundToE4m3(v[i])
                                                       : RoundToE5m2(v[i]);
    words[i / 4] |= code << 8 * (i % 4);
  }
  if (active)
    *reinterpret_cast<uint2*>(row + StoredChunk(lane / 2, chunks, in_block) * kChunkBytes +
                              lane % 2 * 8) = make_uint2(words[0], words[1]);
}

}  // namespace

template <int kGroup, bool kVector>
__global__ void __launch_bounds__(kThreads)
    RopeAndWrite(const __grid_constant__ RopeKvWriteArgs a) {
  Smem smem;
  const int head_dim = a.kv.head_dim;
  float* heads_staged = smem.take<float>(kThreads / kGroup * head_dim);
  const int group = static_cast<int>(threadIdx.x) / kGroup;
  const int lane = static_cast<int>(threadIdx.x) % kGroup;
  const int first_k = a.num_heads, first_v = a.num_heads + a.kv.num_kv_heads;
  const int heads = first_v + a.kv.num_kv_heads;
  const int64_t item = int64_t{blockIdx.x} * (kThreads / kGroup) + group;
  const bool active = item < int64_t{a.rows} * heads && lane * kRowStep < head_dim;
  const int64_t row = active ? item / heads : 0;
  const int head = active ? static_cast<int>(item % heads) : 0;
  const int first = lane * kRowStep;
  float* x = a.qkv + row * a.qkv_stride + head * head_dim + first;
  float* staged = heads_staged + group * head_dim;
  float v[kRowStep] = {};
  if (active) LoadFloats<kVector>(x, kRowStep, v);

  if (a.q_norm != nullptr || a.k_norm != nullptr) {
    if (active) StoreFloats<true>(staged + first, kRowStep, v);
    OCTAVO_UNLESS_PLANTED("rope_kv_write.before_norm", __syncwarp());
    const bool is_q = head < first_k;
    const float* weight = is_q ? a.q_norm : head < first_v ? a.k_norm : nullptr;
    // A group past the last item sums what another launch left: only if it is there at all.
    const float scale = InverseHeadRms(staged, item < int64_t{a.rows} * heads ? head_dim : 0,
                                       is_q ? a.q_eps : a.k_eps);
    OCTAVO_UNLESS_PLANTED("rope_kv_write.after_norm", __syncwarp());
    if (active && weight != nullptr) {
#pragma unroll
      for (int i = 0; i < kRowStep; ++i)
        v[i] = __fmul_rn(__fmul_rn(v[i], scale), __ldg(weight + first + i));
    }
  }
  if (active) StoreFloats<true>(staged + first, kRowStep, v);
  OCTAVO_UNLESS_PLANTED("rope_kv_write.before_rotation", __syncwarp());
  if (active && head < first_v) {
    if (first < a.rotary_dim)
      Rotate(a, a.cos_sin + a.positions[row] * int64_t{a.rotary_dim}, staged, first, v);
    StoreFloats<kVector>(x, kRowStep, v);
  }
  const bool is_key = head < first_v;
  WriteRow<kGroup>(a.kv, is_key ? kKeys : kValues, head - (is_key ? first_k : first_v),
                   active ? a.slots[row] : 0, lane, active && head >= first_k, v);
}

namespace {

template <int kGroup>
absl::Status LaunchFor(const RopeKvWriteArgs& args, cudaStream_t stream) {
  constexpr int kHeads = kThreads / kGroup;
  const int64_t items = int64_t{args.rows} * (args.num_heads + 2 * args.kv.num_kv_heads);
  const bool vector = args.qkv_stride % 4 == 0 && IsAligned16(args.qkv);
  return Launch(vector ? RopeAndWrite<kGroup, true> : RopeAndWrite<kGroup, false>,
                dim3(static_cast<uint32_t>((items + kHeads - 1) / kHeads)), dim3(kThreads),
                kHeads * args.kv.head_dim * sizeof(float), stream, args);
}

}  // namespace

absl::Status LaunchRopeKvWrite(const RopeKvWriteArgs& args, cudaStream_t stream) {
  const PagedKv& kv = args.kv;
  if (kv.dtype != DType::kBF16 && kv.dtype != DType::kF16 && !IsEightBit(kv.dtype))
    return absl::UnimplementedError(
        "rope_kv_write: the pool's dtype is none of bf16, fp16, int8, fp8_e4m3 and fp8_e5m2");
  ShapeCheck check("rope_kv_write");
  check.Between("head_dim", kv.head_dim, 8, kMaxHeadDim).MultipleOf("head_dim", kv.head_dim, 8);
  check.MultipleOf("bytes of a row of the pool", RowBytes(kv.dtype, kv.head_dim), kChunkBytes);
  check.Between("num_heads", args.num_heads, 0, 1 << 16);
  check.Between("num_kv_heads", kv.num_kv_heads, 1, 1 << 16);
  check.Between("block_size", kv.block_size, 8, 64);
  check.MultipleOf("the largest block of 64 slots", 64, kv.block_size);
  const int64_t heads = int64_t{args.num_heads} + 2 * kv.num_kv_heads;
  check.Between("rows", args.rows, 0, (int64_t{1} << 31) / std::max<int64_t>(heads, 1) - 1);
  check.AtLeast("the stride of qkv", args.qkv_stride, heads * kv.head_dim);
  check.NotNull("qkv", args.qkv).NotNull("slots", args.slots).Aligned("the pool", kv.data, 16);
  check.AtLeast("the stride of blocks", kv.block_stride, 16);
  check.MultipleOf("the stride of blocks", kv.block_stride, 16);
  check.Between("rotary_dim", args.rotary_dim, 0, kv.head_dim);
  check.MultipleOf("rotary_dim", args.rotary_dim, 2);
  if (args.rotary_dim > 0)
    check.NotNull("positions", args.positions)
        .Aligned("the table of cosines and sines", args.cos_sin, 8);
  if (!check.status().ok() || args.rows == 0) return check.status();
  if (kv.head_dim <= 64) return LaunchFor<8>(args, stream);
  if (kv.head_dim <= 128) return LaunchFor<16>(args, stream);
  return LaunchFor<32>(args, stream);
}

}  // namespace octavo::cuda
