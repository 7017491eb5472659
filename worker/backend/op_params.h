// Parameters of the backend ops: the only contract between the decoder graph and a device. Pointers
// are device memory unless a comment says host; shapes stand beside each.
#ifndef OCTAVO_WORKER_BACKEND_OP_PARAMS_H_
#define OCTAVO_WORKER_BACKEND_OP_PARAMS_H_

#include <cstdint>
#include <vector>

#include "common/cache_geometry.h"
#include "common/ids.h"
#include "common/sampling_params.h"
#include "common/step.h"
#include "worker/backend/tensor_view.h"

namespace octavo {

class EmbeddingWeight;  // backend-owned layouts
class LinearWeight;

// One sequence's rows of the batch, consecutive and in order of position.
struct SequenceRows {
  int32_t first_row = 0;
  int32_t num_rows = 0;        // tokens computed now
  int32_t context_length = 0;  // position of the first row; tokens before it are in the cache
  int32_t table_begin = 0;     // into each group's block tables
  int32_t table_length = 0;    // blocks of this sequence, enough for context_length + num_rows
};

// A step's inputs: built once per step, read by every layer.
struct StepBatch {
  int32_t num_rows = 0;
  const TokenId* token_ids = nullptr;  // [num_rows]
  const int32_t* positions = nullptr;  // [num_rows]
  // Of each group of layers (kv.7), one after the other. Where a group's window sees nothing, its
  // table has the padding block or one that it has left: the rows do not look there.
  int32_t num_groups = 1;
  const int64_t* slots = nullptr;  // [num_groups, num_rows]; block * block_size + offset in it
  const BlockId* block_tables = nullptr;  // [num_groups, num_table_entries]
  int64_t num_table_entries = 0;          // at least the sum of table_length; the rest is padding
  const BlockId* host_block_tables = nullptr;  // host, the same as block_tables; nullptr: not known
  std::vector<SequenceRows> sequences;         // host

  const int64_t* SlotsOf(int32_t group) const { return slots + int64_t{group} * num_rows; }
  const BlockId* TablesOf(int32_t group) const { return block_tables + group * num_table_entries; }
};

// Bounds of the steps that will come.
struct LargestStep {
  int32_t max_rows = 0;       // tokens
  int32_t max_sequences = 0;  // of a batch
  int32_t max_sampled = 0;    // rows of logits
  int32_t max_positions = 0;  // of a sequence
  int32_t num_heads = 0;      // query heads
  CacheGeometry geometry;
};

// The physical pool. Block-major; the layout inside a block and layer is the backend's own, of
// CacheGeometry::bytes_per_layer_block() bytes.
struct KvPoolView {
  // [num_blocks + 1 (padding), layers_per_block, bytes_per_layer_block]
  std::byte* data = nullptr;
  CacheGeometry geometry;
};

// In the place of a token id: what row `row` of the step before samples (Backend::runs_ahead).
constexpr TokenId SampledByRow(int32_t row) { return -1 - row; }

struct EmbedParams {
  const EmbeddingWeight* weight = nullptr;
  const TokenId* token_ids = nullptr;  // [out.rows]
  float scale = 1.0f;                  // multiplies the rows
  Matrix out;                          // [num_rows, hidden]
  // A weight with a part of the vocabulary: the token of its first row, and how many tokens there
  // are in all; other ranks' tokens become zeros. 0 tokens: the weight has all.
  TokenId first_token = 0;
  int32_t vocab_size = 0;
};

// y = x / sqrt(mean(x^2) + eps) * weight: Zhang and Sennrich, RMSNorm (2019).
struct RmsNorm {
  const float* weight = nullptr;  // [cols]; nullptr: no norm
  float eps = 0;
};

enum class Epilogue {
  kStore,     // out = xW^T + b
  kAdd,       // out += xW^T + b
  kSiluGate,  // out = silu(x G^T) * (x U^T); the weight is {gate, up}, out has half its rows as
              // cols
  kGeluGate,  // the same with the tanh approximation of GELU
};

struct LinearParams {
  const LinearWeight* weight = nullptr;
  RmsNorm norm;                      // applied to x first when its weight is set
  Matrix x;                          // [*, in_features]
  const int32_t* row_ids = nullptr;  // host, [out.rows]: rows of x to use; nullptr: all, in order
  Epilogue epilogue = Epilogue::kStore;
  Matrix out;  // [rows, out_features]
};

// A feed-forward layer: out (+)= gate(norm(x)) D^T + b, whose gate is that of Epilogue.
struct FeedForwardParams {
  const LinearWeight* gate_up = nullptr;
  RmsNorm norm;  // applied to x first when its weight is set
  Matrix x;      // [rows, hidden]
  Epilogue gate = Epilogue::kSiluGate;
  Matrix gated;  // [rows, intermediate]; scratch, holds anything afterwards
  const LinearWeight* down = nullptr;
  Epilogue epilogue = Epilogue::kAdd;  // or kStore
  Matrix out;                          // [rows, hidden]
};

// out += norm(x): the residual of models that norm what a sublayer adds.
struct AddNormedParams {
  Matrix x;      // [rows, cols]; may be overwritten
  RmsNorm norm;  // weight [cols]
  Matrix out;    // [rows, cols]
  // When its weight is set, the next op is a Linear or FeedForward of `out` as it is then, all rows
  // in order, with this norm: a backend may norm them while it has them.
  RmsNorm next;
};

// x = cap tanh(x / cap): Gemma 2's soft limit on the output.
struct SoftcapParams {
  Matrix x;
  float cap = 0;  // positive
};

// Cosines and sines of every position, built at load by the model.
struct RopeTable {
  const float* cos_sin = nullptr;  // [max_positions, rotary_dim / 2, 2]
  int32_t rotary_dim = 0;
  int32_t max_positions = 0;
  bool interleaved = false;  // pairs (2i, 2i+1) instead of (i, i + rotary_dim / 2)
};

// Rotates q and k in place of `qkv`, after optional RMSNorm per head, and writes k and v into their
// slots, rounded to the pool's dtype.
struct RopeAndWriteKvParams {
  Matrix qkv;  // [num_rows, (num_heads + 2 * num_kv_heads) * head_dim]; q in place, then k, v
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  RmsNorm q_norm;  // weight [head_dim]
  RmsNorm k_norm;
  RopeTable rope;
  const StepBatch* batch = nullptr;
  KvPoolView pool;
  int32_t layer = 0;
};

// Causal attention of the batch's rows over their sequences' blocks: Kwon et al., PagedAttention
// (SOSP'23). Rows of one chunk read each other's K and V back from the pool (det.2).
struct PagedAttentionParams {
  Matrix q;    // [num_rows, num_heads * head_dim]; may be a view of qkv
  Matrix out;  // [num_rows, num_heads * head_dim]
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  float scale = 0;             // of the scores, usually 1 / sqrt(head_dim)
  float softcap = 0;           // c: a scaled score s becomes c tanh(s / c); 0: it stays
  int32_t sliding_window = 0;  // positions a row sees, itself included; 0: all before it
  const StepBatch* batch = nullptr;
  KvPoolView pool;
  int32_t layer = 0;
};

struct CopyBlocksParams {
  std::vector<BlockCopy> copies;  // host; a parallel set
  KvPoolView pool;
};

// One row to sample.
struct SampleRow {
  SamplingParams sampling;
  uint32_t choice_index = 0;
  int64_t position = 0;  // of the token being sampled, in its sequence (det.2)
  TokenId target = -1;   // >= 0: report this token instead of choosing one
};

struct SampleOutput {
  TokenId token = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top;
};

struct SampleParams {
  Matrix logits;                             // [rows, vocab]; may be overwritten
  std::vector<SampleRow> rows;               // host
  std::vector<SampleOutput>* out = nullptr;  // host, resized to rows; valid after Synchronize
                                             // or FinishStep
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_BACKEND_OP_PARAMS_H_
