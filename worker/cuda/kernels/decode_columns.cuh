// What one warp of the decode kernel computes: attention of 8 or 16 columns, each a query head of a
// row, over tiles of 16 tokens. With the tokens as M of mma.m16n8k16 and the columns as N, a tile
// is S = K Q^T (d / 16 products), softmax over M, and O^T += V^T P^T (d / 16 products), for which
// an 8 x 8 transpose turns S into P^T.
//
// Registers: O d / 4 and Q d / 8 for each 8 columns, 4 of S, 8 fragments, addresses.
#ifndef OCTAVO_WORKER_CUDA_KERNELS_DECODE_COLUMNS_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_DECODE_COLUMNS_CUH_

#include "worker/cuda/kernels/element.cuh"
#include "worker/cuda/kernels/online_softmax.cuh"
#include "worker/cuda/kernels/paged_kv.cuh"
#include "worker/cuda/kernels/ptx.cuh"

namespace octavo::cuda {

// Lane = 4 g + t; fragments of S hold, for each 8 columns, tokens g and g + 8 of columns 2t and
// 2t + 1.
template <DType kType, int kDim, int kHeadTiles>
class DecodeColumns {
 public:
  using Type = Element<kType>;
  using Tile = KvTile<kType, kDim>;
  static constexpr int kSteps = kDim / 16;
  static constexpr int kColumns = 8 * kHeadTiles;

  // query(column): its kDim floats, or nullptr for a column without a row, whose result is 0.
  template <class Query>
  __device__ __forceinline__ void Begin(int lane, const Query& query) {
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n) {
      // B operand: column g.
      const float* q = query(8 * n + (lane >> 2));
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float2 pair = make_float2(0.0f, 0.0f);
          if (q != nullptr)
            pair =
                *reinterpret_cast<const float2*>(q + step * 16 + Type::QueryElement(i, lane & 3));
          q_[n][step][i] = Type::Pack(pair.x, pair.y);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) o_[n][step][i] = 0.0f;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) softmax_[n][i] = RunningSoftmax::Empty();
    }
  }

  // The tile at `position`, whole in shared memory.
  __device__ __forceinline__ void AddTile(const ScoreScale& score, const std::byte* tile,
                                          int position, SeenPositions seen, int lane) {
    float s[kHeadTiles][4];
    uint32_t p[kHeadTiles][2];
    Scores(tile, lane, s);
    Weights(score, tile, position, seen, lane, s, p);
    AddValues(tile, p, lane);
  }

  // Writes, of each column, its kDim sums of p v to weighted(column), nullptr for a column that
  // nobody wants, and its maximum and sum to the two floats at softmax(column).
  template <class Weighted, class Softmax>
  __device__ __forceinline__ void Leave(int lane, const Weighted& weighted,
                                        const Softmax& softmax) const {
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = 8 * n + 2 * (lane & 3) + i;
        const float sum = LanesSum<4, 32>(softmax_[n][i].sum);
        float* const place = weighted(column);
        if (place == nullptr) continue;
        if (lane < 4) {
          float* const state = softmax(column);
          state[0] = softmax_[n][i].maximum;
          state[1] = sum;
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
#pragma unroll
          for (int row = 0; row < 2; ++row)
            place[step * 16 + Type::OutputElement((lane >> 2) + 8 * row)] =
                o_[n][step][i + 2 * row];
      }
  }

 private:
  __device__ __forceinline__ void Scores(const std::byte* tile, int lane,
                                         float (&s)[kHeadTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = 0.0f;
#pragma unroll
    for (int piece = 0; piece < Tile::kPieces; ++piece) {
      uint32_t raw[4];
      LoadPiece<Tile::kChunks, false>(raw, tile, 2 * piece, lane);
#pragma unroll
      for (int half = 0; half < Type::kStepsPerPiece; ++half) {
        const int step = piece * Type::kStepsPerPiece + half;
        if (step >= kSteps) continue;
        uint32_t keys[4];
        Type::KeysA(raw, half, keys);
#pragma unroll
        for (int n = 0; n < kHeadTiles; ++n) Type::Mma(s[n], keys, q_[n][step]);
      }
    }
  }

  // Turns scores of tokens at `position` + g and + g + 8 into weights as B operand of O^T; rescales
  // what was summed before.
  __device__ __forceinline__ void Weights(const ScoreScale& score, const std::byte* tile,
                                          int position, SeenPositions seen, int lane,
                                          float (&s)[kHeadTiles][4], uint32_t (&p)[kHeadTiles][2]) {
    float value_scale[2] = {1.0f, 1.0f};
    bool is_seen[2];
    float key_scale[2] = {1.0f, 1.0f};
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int token = (lane >> 2) + 8 * row;
      is_seen[row] = position + token >= seen.first && position + token < seen.end;
      if constexpr (Type::kScaled) {
        key_scale[row] = TileScale<kType, kDim>(tile, kKeys, token);
        value_scale[row] = TileScale<kType, kDim>(tile, kValues, token);
      }
    }
#pragma unroll
    for (int n = 0; n < kHeadTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float qk = s[n][i];
        if constexpr (Type::kScaled) qk *= key_scale[i >> 1];
        s[n][i] = is_seen[i >> 1] ? score(qk) : -INFINITY;
      }
#pragma unroll
      for (int column = 0; column < 2; ++column) {
        float earlier;
        const float reference = softmax_[n][column].Raise(
            LanesMax<4, 32>(fmaxf(s[n][column], s[n][column + 2])), &earlier);
        const float low = SoftmaxWeight(s[n][column], reference);
        const float high = SoftmaxWeight(s[n][column + 2], reference);
        softmax_[n][column].sum += low;
        softmax_[n][column].sum += high;
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          o_[n][step][column] *= earlier;
          o_[n][step][column + 2] *= earlier;
        }
        s[n][column] = low;
        s[n][column + 2] = high;
        if constexpr (Type::kScaled) {
          s[n][column] = ScaledProbability(low, value_scale[0], Type::kProbabilityFactor);
          s[n][column + 2] = ScaledProbability(high, value_scale[1], Type::kProbabilityFactor);
        }
      }
      p[n][0] = ptx::movmatrix(Type::Pack(s[n][0], s[n][1]));
      p[n][1] = ptx::movmatrix(Type::Pack(s[n][2], s[n][3]));
    }
  }

  __device__ __forceinline__ void AddValues(const std::byte* tile,
                                            const uint32_t (&p)[kHeadTiles][2], int lane) {
    const std::byte* values = tile + Tile::kRowsBytes;
#pragma unroll
    for (int piece = 0; piece < Tile::kPieces; ++piece) {
      uint32_t raw[4];
      LoadPiece<Tile::kChunks, true>(raw, values, 2 * piece, lane);
#pragma unroll
      for (int half = 0; half < Type::kStepsPerPiece; ++half) {
        const int step = piece * Type::kStepsPerPiece + half;
        if (step >= kSteps) continue;
        uint32_t fragment[4];
        Type::ValuesA(raw, half, fragment);
#pragma unroll
        for (int n = 0; n < kHeadTiles; ++n) Type::Mma(o_[n][step], fragment, p[n]);
      }
    }
  }

  uint32_t q_[kHeadTiles][kSteps][2];
  float o_[kHeadTiles][kSteps][4];
  RunningSoftmax softmax_[kHeadTiles][2];
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_KERNELS_DECODE_COLUMNS_CUH_
