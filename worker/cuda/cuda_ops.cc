// The ops of CudaBackend: checks of what the port promises, and launches.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/cuda/cuda_backend.h"
#include "worker/cuda/device_memory.h"
#include "worker/cuda/kernels/block_copy.h"
#include "worker/cuda/kernels/embedding.h"
#include "worker/cuda/kernels/norm.h"
#include "worker/cuda/kernels/pointwise.h"
#include "worker/cuda/kernels/rope_kv_write.h"

namespace octavo::cuda {
absl::Status CudaBackend::Embed(const EmbedParams& params) {
  const auto* weight = dynamic_cast<const CudaEmbedding*>(params.weight);
  if (weight == nullptr)
    return absl::InvalidArgumentError("embed: the weight is missing or another backend's");
  if (params.out.cols != weight->cols())
    return absl::InvalidArgumentError(absl::StrCat("embed: out has ", params.out.cols,
                                                   " columns; the embedding has ", weight->cols()));
  EmbeddingArgs args;
  args.table = weight->data();
  args.type = weight->type();
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
  normed_ = {};
  const auto type = input_types_.find(params.out.cols);
  if (params.next.weight != nullptr && type != input_types_.end() && type->second.has_value()) {
    args.next_weight = params.next.weight;
    args.next_eps = params.next.eps;
    args.next_stride = PaddedCols(params.out.cols);
    OCTAVO_RETURN_IF_ERROR(
        Grow(rows_, static_cast<size_t>(params.out.rows * args.next_stride) * sizeof(uint16_t)));
    args.next_type = *type->second;
    args.next_out = rows_.data();
    if (args.next_type == DType::kF8E4M3) {
      OCTAVO_RETURN_IF_ERROR(
          Grow(row_scales_, static_cast<size_t>(params.out.rows) * sizeof(float)));
      args.next_scales = row_scales_.as<float>();
    }
    normed_ = {params.out, params.next, args.next_type};
  }
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
