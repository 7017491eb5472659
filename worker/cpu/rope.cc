#include "worker/cpu/rope.h"

#include <immintrin.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cpu/kv_layout.h"
#include "worker/cpu/kv_write.h"
#include "worker/cpu/simd16.h"

namespace octavo {
namespace {

namespace simd = OCTAVO_SIMD;

// Below this many elements another thread takes longer to wake than to help.
constexpr int64_t kSmallElements = 8192;

absl::Status Invalid(absl::string_view what, int64_t value, absl::string_view limit,
                     int64_t limit_value) {
  return absl::InvalidArgumentError(
      absl::StrCat("rope: ", what, " is ", value, "; ", limit, " is ", limit_value));
}

absl::Status Check(const RopeAndWriteKvParams& params) {
  const KvShape& shape = params.pool.geometry.shape();
  if (params.batch == nullptr || params.pool.data == nullptr || params.qkv.data == nullptr)
    return absl::InvalidArgumentError("rope: batch, pool or qkv is missing");
  if (params.head_dim != shape.head_dim)
    return Invalid("head_dim", params.head_dim, "the cache's", shape.head_dim);
  if (params.num_kv_heads != shape.num_kv_heads)
    return Invalid("num_kv_heads", params.num_kv_heads, "the cache's", shape.num_kv_heads);
  if (params.num_heads < 0) return Invalid("num_heads", params.num_heads, "the least", 0);
  if (params.layer < 0 || params.layer >= shape.num_layers)
    return Invalid("layer", params.layer, "num_layers", shape.num_layers);
  if (params.batch->num_groups != params.pool.geometry.num_groups())
    return Invalid("num_groups of the batch", params.batch->num_groups, "the cache's",
                   params.pool.geometry.num_groups());
  const int64_t cols = (int64_t{params.num_heads} + 2 * params.num_kv_heads) * params.head_dim;
  if (params.qkv.cols < cols) return Invalid("cols of qkv", params.qkv.cols, "q, k and v's", cols);
  if (params.qkv.rows < params.batch->num_rows)
    return Invalid("rows of qkv", params.qkv.rows, "the batch's", params.batch->num_rows);
  const RopeTable& rope = params.rope;
  if (rope.rotary_dim < 0 || rope.rotary_dim % 2 != 0 || rope.rotary_dim > params.head_dim)
    return Invalid("rotary_dim (even)", rope.rotary_dim, "head_dim", params.head_dim);
  if (rope.rotary_dim > 0 && rope.cos_sin == nullptr)
    return absl::InvalidArgumentError("rope: the table of cosines and sines is missing");
  const int64_t* slots = params.batch->SlotsOf(params.pool.geometry.place(params.layer).group);
  for (int32_t row = 0; row < params.batch->num_rows; ++row) {
    if (slots[row] < 0) return Invalid("slot", slots[row], "the least", 0);
    const int32_t position = params.batch->positions[row];
    if (position < 0 || (rope.rotary_dim > 0 && position >= rope.max_positions))
      return Invalid("position", position, "the end of the rope table", rope.max_positions);
  }
  return absl::OkStatus();
}

// 16 partial sums of squares, then a fixed tree, as every RMSNorm of this backend.
void NormalizeHead(float* x, int32_t head_dim, const RmsNorm& norm) {
  simd::Vec squares = simd::Zero();
  int32_t d = 0;
  for (; d + simd::kLanes <= head_dim; d += simd::kLanes) {
    const simd::Vec v = simd::Load(x + d);
    squares = simd::Fma(v, v, squares);
  }
  if (d < head_dim) {  // a multiple of 8
    const simd::Vec v = simd::Load8(x + d);
    squares = simd::Fma(v, v, squares);
  }
  const float mean = simd::ReduceAdd(squares) / static_cast<float>(head_dim);
  const float scale = 1.0f / std::sqrt(mean + norm.eps);
  for (int32_t i = 0; i < head_dim; ++i) x[i] = x[i] * scale * norm.weight[i];
}

// Even and odd floats of 16, and back.
void Deinterleave(const float* from, __m256& even, __m256& odd) {
  const __m256 low = _mm256_loadu_ps(from), high = _mm256_loadu_ps(from + 8);
  const __m256 first = _mm256_permute2f128_ps(low, high, 0x20);
  const __m256 second = _mm256_permute2f128_ps(low, high, 0x31);
  even = _mm256_shuffle_ps(first, second, _MM_SHUFFLE(2, 0, 2, 0));
  odd = _mm256_shuffle_ps(first, second, _MM_SHUFFLE(3, 1, 3, 1));
}

void Interleave(__m256 even, __m256 odd, float* to) {
  const __m256 low = _mm256_unpacklo_ps(even, odd), high = _mm256_unpackhi_ps(even, odd);
  _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
  _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
}

// a * cos - b * sin and b * cos + a * sin, every product rounded.
template <typename T>
void Rotate(T& a, T& b, T cosine, T sine) {
  const T rotated = a * cosine - b * sine;
  b = b * cosine + a * sine;
  a = rotated;
}

// cos_sin: [rotary_dim / 2][2] of the position.
void RotateHead(float* x, const RopeTable& rope, const float* cos_sin) {
  const int32_t pairs = rope.rotary_dim / 2;
  int32_t i = 0;
  for (; i + 8 <= pairs; i += 8) {
    __m256 a, b, cosine, sine;
    Deinterleave(cos_sin + 2 * i, cosine, sine);
    if (rope.interleaved) {
      Deinterleave(x + 2 * i, a, b);
      Rotate(a, b, cosine, sine);
      Interleave(a, b, x + 2 * i);
    } else {
      a = _mm256_loadu_ps(x + i);
      b = _mm256_loadu_ps(x + pairs + i);
      Rotate(a, b, cosine, sine);
      _mm256_storeu_ps(x + i, a);
      _mm256_storeu_ps(x + pairs + i, b);
    }
  }
  for (; i < pairs; ++i) {
    float& a = x[rope.interleaved ? 2 * i : i];
    float& b = x[rope.interleaved ? 2 * i + 1 : i + pairs];
    Rotate(a, b, cos_sin[2 * i], cos_sin[2 * i + 1]);
  }
}

}  // namespace

absl::Status RopeAndWriteKv(const RopeAndWriteKvParams& params, ThreadPool& pool) {
  OCTAVO_RETURN_IF_ERROR(Check(params));
  OCTAVO_ASSIGN_OR_RETURN(const KvLayout layout, KvLayout::Create(params.pool.geometry));
  const LayerPlace place = params.pool.geometry.place(params.layer);
  const int64_t* slots = params.batch->SlotsOf(place.group);
  const int32_t head_dim = params.head_dim;
  const int32_t first_k = params.num_heads, first_v = params.num_heads + params.num_kv_heads;
  const int64_t heads = int64_t{first_v} + params.num_kv_heads;

  const auto run = [&](int64_t row, int32_t head) {
    float* x = params.qkv.row(row) + int64_t{head} * head_dim;
    if (head < first_v) {
      const RmsNorm& norm = head < first_k ? params.q_norm : params.k_norm;
      if (norm.weight != nullptr) NormalizeHead(x, head_dim, norm);
      const int64_t position = params.batch->positions[row];
      RotateHead(x, params.rope, params.rope.cos_sin + position * params.rope.rotary_dim);
    }
    if (head < first_k) return;
    const int64_t slot = slots[row];
    const auto in_block = static_cast<int32_t>(slot % layout.block_size());
    const bool is_key = head < first_v;
    std::byte* piece = params.pool.data + slot / layout.block_size() * layout.block_stride() +
                       layout.PieceOffset(place.index, head - (is_key ? first_k : first_v));
    if (is_key)
      WriteKey(layout, piece, in_block, x);
    else
      WriteValue(layout, piece, in_block, x);
  };
  const int64_t items = params.batch->num_rows * heads;
  const auto share = [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item)
      run(item / heads, static_cast<int32_t>(item % heads));
  };
  if (items * head_dim < kSmallElements) {
    share(0, items);
  } else {
    pool.Run([&](int thread) {
      share(items * thread / pool.size(), items * (thread + 1) / pool.size());
    });
  }
  return absl::OkStatus();
}

}  // namespace octavo
