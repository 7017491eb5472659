// The ops of CudaBackend: checks of what the port promises, and launches.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cuda/cuda_backend.h"
#include "worker/cuda/device_memory.h"
#include "worker/cuda/kernels/block_copy.h"
#include "worker/cuda/kernels/embedding.h"
#include "worker/cuda/kernels/gate.h"
#include "worker/cuda/kernels/norm.h"
#include "worker/cuda/kernels/pointwise.h"
#include "worker/cuda/kernels/rope_kv_write.h"

namespace octavo::cuda {
namespace {

bool IsGate(Epilogue epilogue) {
  return epilogue == Epilogue::kSiluGate || epilogue == Epilogue::kGeluGate;
}

absl::Status CheckLinear(const CudaLinear& weight, const LinearParams& params) {
  const bool gate = IsGate(params.epilogue);
  if (gate != weight.gated())
    return absl::InvalidArgumentError(absl::StrCat("a ", weight.gated() ? "gated" : "plain",
                                                   " linear weight was used with ",
                                                   gate ? "a gate" : "no gate", " epilogue"));
  if (params.x.cols != weight.in_features())
    return absl::InvalidArgumentError(absl::StrCat(
        "linear input has ", params.x.cols, " columns; the weight takes ", weight.in_features()));
  const int64_t out_cols = weight.out_features() / (gate ? 2 : 1);
  if (params.out.cols != out_cols)
    return absl::InvalidArgumentError(absl::StrCat("linear output has ", params.out.cols,
                                                   " columns; the weight gives ", out_cols));
  if (params.row_ids == nullptr && params.out.rows > params.x.rows)
    return absl::InvalidArgumentError(
        absl::StrCat("linear output has ", params.out.rows, " rows, the input ", params.x.rows));
  return absl::OkStatus();
}

// Rows [first, first + rows) of the input, normed and rounded into `out`.
absl::Status RoundRows(const LinearParams& params, const int32_t* row_ids, int64_t first,
                       int64_t rows, uint16_t* out, int64_t out_stride, cudaStream_t stream) {
  RmsNormArgs args;
  args.x = row_ids != nullptr ? params.x.data : params.x.row(first);
  args.x_stride = params.x.stride;
  args.row_ids = row_ids != nullptr ? row_ids + first : nullptr;
  args.weight = params.norm.weight;
  args.eps = params.norm.eps;
  args.out = out;
  args.out_stride = out_stride;
  args.rows = static_cast<int32_t>(rows);
  args.cols = static_cast<int32_t>(params.x.cols);
  return LaunchRmsNorm(args, stream);
}

GemmArgs ProductOf(const CudaLinear& weight, const uint16_t* x, int64_t rows) {
  GemmArgs args;
  args.x = x;
  args.x_stride = weight.stride();
  args.weight = weight.data();
  args.weight_stride = weight.stride();
  args.bias = weight.bias();
  args.rows = rows;
  args.in_features = weight.in_features();
  args.out_features = weight.out_features();
  return args;
}

}  // namespace

absl::Status CudaBackend::Embed(const EmbedParams& params) {
  const auto* weight = dynamic_cast<const CudaEmbedding*>(params.weight);
  if (weight == nullptr)
    return absl::InvalidArgumentError("embed: the weight is missing or another backend's");
  if (params.out.cols != weight->cols())
    return absl::InvalidArgumentError(absl::StrCat("embed: out has ", params.out.cols,
                                                   " columns; the embedding has ", weight->cols()));
  EmbeddingArgs args;
  args.table = weight->data();
  args.table_stride = weight->stride();
  args.table_rows = static_cast<int32_t>(weight->rows());
  args.first_token = params.first_token;
  args.vocabulary = std::max(params.vocab_size, args.table_rows);
  args.token_ids = params.token_ids;
  args.sampled = sampler_.tokens();
  args.num_sampled = sampler_.max_tokens();
  args.scale = params.scale;
  args.out = params.out.data;
  args.out_stride = params.out.stride;
  args.rows = static_cast<int32_t>(params.out.rows);
  args.cols = static_cast<int32_t>(params.out.cols);
  return LaunchEmbedding(args, compute_.get());
}

absl::StatusOr<const int32_t*> CudaBackend::RowIds(const int32_t* host, int64_t count,
                                                   int64_t rows) {
  if (host == nullptr) return nullptr;
  for (int64_t i = 0; i < count; ++i)
    if (host[i] < 0 || host[i] >= rows)
      return absl::InvalidArgumentError(
          absl::StrCat("linear row id ", host[i], " is not in 0..", rows - 1));
  if (host == step_row_ids_ && static_cast<size_t>(count) == num_step_row_ids_)
    return row_ids_.as<int32_t>();
  const size_t bytes = static_cast<size_t>(count) * sizeof(int32_t);
  OCTAVO_RETURN_IF_ERROR(Grow(other_row_ids_, bytes));
  OCTAVO_RETURN_IF_ERROR(staging_->Copy(other_row_ids_.data(), host, bytes));
  return other_row_ids_.as<int32_t>();
}

absl::Status CudaBackend::Linear(const LinearParams& params) {
  const auto* weight = dynamic_cast<const CudaLinear*>(params.weight);
  if (weight == nullptr)
    return absl::InvalidArgumentError("linear: the weight is missing or another backend's");
  OCTAVO_RETURN_IF_ERROR(CheckLinear(*weight, params));
  if (params.out.rows == 0) return absl::OkStatus();
  OCTAVO_ASSIGN_OR_RETURN(const int32_t* const row_ids,
                          RowIds(params.row_ids, params.out.rows, params.x.rows));
  OCTAVO_RETURN_IF_ERROR(
      Grow(rows_, static_cast<size_t>(params.out.rows * weight->stride()) * sizeof(uint16_t)));
  if (weight->gated()) return GatedLinear(*weight, params, row_ids);
  OCTAVO_RETURN_IF_ERROR(RoundRows(params, row_ids, 0, params.out.rows, rows_.as<uint16_t>(),
                                   weight->stride(), compute_.get()));
  GemmArgs args = ProductOf(*weight, rows_.as<uint16_t>(), params.out.rows);
  args.out = params.out.data;
  args.out_stride = params.out.stride;
  args.add = params.epilogue == Epilogue::kAdd;
  return gemm_->Run(args, compute_.get());
}

absl::Status CudaBackend::GatedLinear(const CudaLinear& weight, const LinearParams& params,
                                      const int32_t* row_ids) {
  const int64_t most = std::min(params.out.rows, kGatedRows);
  OCTAVO_RETURN_IF_ERROR(
      Grow(gate_up_, static_cast<size_t>(most * weight.out_features()) * sizeof(float)));
  for (int64_t first = 0; first < params.out.rows; first += most) {
    const int64_t rows = std::min(most, params.out.rows - first);
    OCTAVO_RETURN_IF_ERROR(RoundRows(params, row_ids, first, rows, rows_.as<uint16_t>(),
                                     weight.stride(), compute_.get()));
    GemmArgs product = ProductOf(weight, rows_.as<uint16_t>(), rows);
    product.out = gate_up_.as<float>();
    product.out_stride = weight.out_features();
    OCTAVO_RETURN_IF_ERROR(gemm_->Run(product, compute_.get()));
    GateArgs gate;
    gate.gate_up = gate_up_.as<float>();
    gate.gate_up_stride = weight.out_features();
    gate.activation =
        params.epilogue == Epilogue::kSiluGate ? GateActivation::kSilu : GateActivation::kGeluTanh;
    gate.out = params.out.row(first);
    gate.out_stride = params.out.stride;
    gate.rows = static_cast<int32_t>(rows);
    gate.cols = static_cast<int32_t>(params.out.cols);
    OCTAVO_RETURN_IF_ERROR(LaunchGate(gate, compute_.get()));
  }
  return absl::OkStatus();
}

absl::Status CudaBackend::AddNormed(const AddNormedParams& params) {
  if (params.x.rows != params.out.rows || params.x.cols != params.out.cols)
    return absl::InvalidArgumentError(absl::StrCat("norm input is ", params.x.rows, " x ",
                                                   params.x.cols, ", its output ", params.out.rows,
                                                   " x ", params.out.cols));
  AddNormedArgs args;
  args.x = params.x.data;
  args.x_stride = params.x.stride;
  args.weight = params.norm.weight;
  args.eps = params.norm.eps;
  args.out = params.out.data;
  args.out_stride = params.out.stride;
  args.rows = static_cast<int32_t>(params.x.rows);
  args.cols = static_cast<int32_t>(params.x.cols);
  return LaunchAddNormed(args, compute_.get());
}

absl::Status CudaBackend::Softcap(const SoftcapParams& params) {
  SoftcapArgs args;
  args.x = params.x.data;
  args.stride = params.x.stride;
  args.cap = params.cap;
  args.rows = static_cast<int32_t>(params.x.rows);
  args.cols = static_cast<int32_t>(params.x.cols);
  return LaunchSoftcap(args, compute_.get());
}

absl::Status CudaBackend::RopeAndWriteKv(const RopeAndWriteKvParams& params) {
  const KvShape& shape = params.pool.geometry.shape();
  if (params.batch == nullptr || params.pool.data == nullptr)
    return absl::InvalidArgumentError("rope: batch or pool is missing");
  if (params.layer < 0 || params.layer >= shape.num_layers)
    return absl::InvalidArgumentError(
        absl::StrCat("rope: layer is ", params.layer, "; num_layers is ", shape.num_layers));
  if (params.head_dim != shape.head_dim || params.num_kv_heads != shape.num_kv_heads)
    return absl::InvalidArgumentError(absl::StrCat("rope: ", params.num_kv_heads, " KV heads of ",
                                                   params.head_dim, "; the cache has ",
                                                   shape.num_kv_heads, " of ", shape.head_dim));
  for (const SequenceRows& sequence : params.batch->sequences) {
    const int64_t end = int64_t{sequence.context_length} + sequence.num_rows;
    if (params.rope.rotary_dim > 0 && end > params.rope.max_positions)
      return absl::InvalidArgumentError(absl::StrCat(
          "rope: position is ", end - 1, "; the table ends at ", params.rope.max_positions));
  }
  const LayerPlace place = params.pool.geometry.place(params.layer);
  RopeKvWriteArgs args;
  args.qkv = params.qkv.data;
  args.qkv_stride = params.qkv.stride;
  args.rows = params.batch->num_rows;
  args.num_heads = params.num_heads;
  args.kv = LayerOf(params.pool, place.index);
  args.q_norm = params.q_norm.weight;
  args.k_norm = params.k_norm.weight;
  args.q_eps = params.q_norm.eps;
  args.k_eps = params.k_norm.eps;
  args.cos_sin = params.rope.cos_sin;
  args.rotary_dim = params.rope.rotary_dim;
  args.max_positions = params.rope.max_positions;
  args.interleaved = params.rope.interleaved;
  args.positions = params.batch->positions;
  args.slots = params.batch->SlotsOf(place.group);
  return LaunchRopeKvWrite(args, compute_.get());
}

absl::Status CudaBackend::PagedAttention(const PagedAttentionParams& params) {
  return attention_->Run(params, compute_.get());
}

absl::Status CudaBackend::CopyBlocks(const CopyBlocksParams& params) {
  if (params.copies.empty()) return absl::OkStatus();
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  for (const BlockCopy& copy : params.copies)
    if (copy.source < 0 || copy.target < 0)
      return absl::InvalidArgumentError(absl::StrCat("copy blocks: block ", copy.source, " to ",
                                                     copy.target, "; ids are at least 0"));
  const size_t bytes = params.copies.size() * sizeof(BlockCopy);
  OCTAVO_RETURN_IF_ERROR(Grow(copies_, std::max(bytes, size_t{4096})));
  OCTAVO_RETURN_IF_ERROR(staging_->Copy(copies_.data(), params.copies.data(), bytes));
  BlockCopyArgs args;
  args.pool = params.pool.data;
  args.block_bytes = params.pool.geometry.bytes_per_block();
  args.copies = copies_.as<BlockCopy>();
  args.count = static_cast<int32_t>(params.copies.size());
  return LaunchBlockCopy(args, compute_.get());
}

absl::Status CudaBackend::Sample(const SampleParams& params) {
  OCTAVO_RETURN_IF_ERROR(UseDevice());
  sampling_ = true;
  return sampler_.Run(params, *staging_, compute_.get());
}

}  // namespace octavo::cuda
