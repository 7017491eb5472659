#include "worker/model/decoder.h"

#include <cmath>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "common/status_naming.h"
#include "worker/model/rope_table.h"

namespace octavo {
namespace {

// Columns of the stacked q, k and v.
int64_t QkvCols(const ModelConfig& config) {
  return int64_t{config.num_heads + 2 * config.num_kv_heads} * config.head_dim;
}

int64_t QueryCols(const ModelConfig& config) { return int64_t{config.num_heads} * config.head_dim; }

// Rank 0 gathers the logits of all.
int64_t LogitCols(const Model& model) {
  return model.split.place.rank == 0 ? model.config.vocab_size : model.split.vocab.size();
}

Matrix Rows(const Buffer& buffer, int64_t rows, int64_t cols) {
  return {buffer.as<float>(), rows, cols, cols};
}

Epilogue GateOf(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return Epilogue::kSiluGate;
    case Activation::kGeluTanh:
      return Epilogue::kGeluGate;
  }
  return Epilogue::kSiluGate;
}

}  // namespace

int64_t Decoder::ActivationBytes(const Model& model, const DecoderLimits& limits) {
  const ModelConfig& config = model.config;
  const int64_t hidden = int64_t{config.post_norms ? 2 : 1} * config.hidden_size;
  const int64_t per_row = hidden + QkvCols(config) + QueryCols(config) + config.intermediate_size;
  const int64_t rotary_dims =
      config.rope.rotary_dim + (config.local_rope ? config.local_rope->rotary_dim : 0);
  const int64_t elements = per_row * limits.max_rows + LogitCols(model) * limits.max_sampled +
                           rotary_dims * limits.max_positions;
  return elements * static_cast<int64_t>(sizeof(float));
}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Create(Backend& backend, const Model& model,
                                                         const DecoderLimits& limits,
                                                         Communicator* communicator) {
  OCTAVO_CHECK(model.split.place.size == 1 || communicator != nullptr);
  if (limits.max_rows < 1 || limits.max_sampled < 1)
    return absl::InvalidArgumentError(absl::StrCat("a step of ", limits.max_rows, " tokens and ",
                                                   limits.max_sampled,
                                                   " sequences; both must be at least 1"));
  if (limits.max_positions < 1 || limits.max_positions > model.config.max_positions)
    return absl::InvalidArgumentError(
        absl::StrCat("max_model_len is ", limits.max_positions, "; it must be in [1, ",
                     model.config.max_positions, "], the positions of model ", model.config.name));
  auto decoder = absl::WrapUnique(new Decoder(backend, model, limits, communicator));
  OCTAVO_RETURN_IF_ERROR(decoder->Allocate());
  return decoder;
}

Decoder::Decoder(Backend& backend, const Model& model, const DecoderLimits& limits,
                 Communicator* communicator)
    : backend_(backend), model_(model), limits_(limits), communicator_(communicator) {}

absl::Status Decoder::Allocate() {
  const ModelConfig& config = model_.config;
  const auto allocate = [&](absl::string_view what, Buffer& buffer, int64_t rows,
                            int64_t cols) -> absl::Status {
    absl::StatusOr<Buffer> made =
        backend_.Allocate(static_cast<size_t>(rows * cols) * sizeof(float));
    if (!made.ok())
      return Naming(absl::StrCat(what, ", ", rows, " x ", cols, " floats"), made.status());
    buffer = *std::move(made);
    return absl::OkStatus();
  };
  const int64_t rows = limits_.max_rows;
  OCTAVO_RETURN_IF_ERROR(allocate("hidden rows", hidden_, rows, config.hidden_size));
  OCTAVO_RETURN_IF_ERROR(allocate("queries, keys and values", qkv_, rows, QkvCols(config)));
  OCTAVO_RETURN_IF_ERROR(allocate("results of attention", attended_, rows, QueryCols(config)));
  OCTAVO_RETURN_IF_ERROR(
      allocate("rows of feed-forward layers", gated_, rows, config.intermediate_size));
  OCTAVO_RETURN_IF_ERROR(allocate("logits", logits_, limits_.max_sampled, LogitCols(model_)));
  if (config.post_norms)
    OCTAVO_RETURN_IF_ERROR(allocate("sums before their norms", added_, rows, config.hidden_size));
  OCTAVO_ASSIGN_OR_RETURN(rope_, MakeRope(config.rope, cos_sin_));
  local_rope_ = rope_;
  if (config.local_rope) {
    OCTAVO_ASSIGN_OR_RETURN(local_rope_, MakeRope(*config.local_rope, local_cos_sin_));
  }
  return absl::OkStatus();
}

absl::StatusOr<RopeTable> Decoder::MakeRope(const RopeConfig& rope, Buffer& cos_sin) const {
  OCTAVO_ASSIGN_OR_RETURN(const std::vector<float> values,
                          CosSinTable(rope, limits_.max_positions));
  const size_t bytes = values.size() * sizeof(float);
  absl::StatusOr<Buffer> made = backend_.Allocate(bytes);
  if (!made.ok())
    return Naming(absl::StrCat("rotations of ", limits_.max_positions, " positions"),
                  made.status());
  cos_sin = *std::move(made);
  OCTAVO_RETURN_IF_ERROR(backend_.CopyToDevice(cos_sin.data(), values.data(), bytes));
  RopeTable table;
  table.cos_sin = cos_sin.as<float>();
  table.rotary_dim = rope.rotary_dim;
  table.max_positions = limits_.max_positions;
  table.interleaved = rope.style == RopeStyle::kInterleaved;
  return table;
}

RmsNorm Decoder::Norm(const Buffer& weight) const {
  return {weight.as<float>(), model_.config.norm_eps};
}

absl::StatusOr<Matrix> Decoder::Forward(const StepBatch& batch, const KvPoolView& pool,
                                        const std::vector<int32_t>& row_ids) {
  OCTAVO_CHECK(batch.num_rows <= limits_.max_rows, "rows=", batch.num_rows);
  const ModelConfig& config = model_.config;
  rows_ = batch.num_rows;
  if (rows_ == 0) return Rows(logits_, 0, LogitCols(model_));

  OCTAVO_ASSIGN_OR_RETURN(const bool started, backend_.BeginStep(batch, row_ids));
  if (started) return Rows(logits_, static_cast<int64_t>(row_ids.size()), config.vocab_size);
  const Matrix hidden = Rows(hidden_, batch.num_rows, config.hidden_size);
  EmbedParams embed = {model_.embedding.get(), batch.token_ids, config.embedding_scale, hidden};
  embed.first_token = static_cast<TokenId>(model_.split.vocab.begin);
  embed.vocab_size = config.vocab_size;
  OCTAVO_RETURN_IF_ERROR(backend_.Embed(embed));
  OCTAVO_RETURN_IF_ERROR(SumOverRanks(hidden));
  for (int32_t layer = 0; layer < config.num_layers; ++layer)
    OCTAVO_RETURN_IF_ERROR(Layer(layer, batch, pool));
  OCTAVO_ASSIGN_OR_RETURN(const Matrix logits, Logits(row_ids));
  OCTAVO_RETURN_IF_ERROR(backend_.EndStep());
  return logits;
}

absl::StatusOr<Matrix> Decoder::Logits(const std::vector<int32_t>& row_ids) {
  const auto sampled = static_cast<int64_t>(row_ids.size());
  OCTAVO_CHECK(sampled <= limits_.max_sampled, "sampled=", sampled);
  const ModelConfig& config = model_.config;
  const Matrix logits = Rows(logits_, sampled, LogitCols(model_));
  if (sampled == 0) return logits;
  Matrix own = logits;
  own.cols = model_.split.vocab.size();
  const Matrix hidden = Rows(hidden_, rows_, config.hidden_size);
  OCTAVO_RETURN_IF_ERROR(backend_.Linear({model_.head.get(), Norm(model_.output_norm), hidden,
                                          row_ids.data(), Epilogue::kStore, own}));
  if (config.logit_softcap > 0)
    OCTAVO_RETURN_IF_ERROR(backend_.Softcap({own, config.logit_softcap}));
  if (communicator_ != nullptr) {
    Matrix whole = logits;
    whole.cols = config.vocab_size;
    OCTAVO_RETURN_IF_ERROR(communicator_->GatherColumns(own, model_.vocab_begins, whole));
  }
  return logits;
}

absl::Status Decoder::Layer(int32_t layer, const StepBatch& batch, const KvPoolView& pool) {
  const ModelConfig& config = model_.config;
  const LayerWeights& weights = model_.layers[static_cast<size_t>(layer)];
  const Matrix hidden = Rows(hidden_, batch.num_rows, config.hidden_size);
  const Matrix qkv = Rows(qkv_, batch.num_rows, QkvCols(config));
  const Matrix q = {qkv.data, qkv.rows, QueryCols(config), qkv.stride};
  const Matrix attended = Rows(attended_, batch.num_rows, QueryCols(config));

  OCTAVO_RETURN_IF_ERROR(backend_.Linear(
      {weights.qkv.get(), Norm(weights.attention_norm), hidden, nullptr, Epilogue::kStore, qkv}));

  RopeAndWriteKvParams rope;
  rope.qkv = qkv;
  rope.num_heads = config.num_heads;
  rope.num_kv_heads = config.num_kv_heads;
  rope.head_dim = config.head_dim;
  if (config.qk_norm) {
    rope.q_norm = Norm(weights.query_norm);
    rope.k_norm = Norm(weights.key_norm);
  }
  const int32_t window = config.WindowOf(layer);
  rope.rope = window > 0 ? local_rope_ : rope_;
  rope.batch = &batch;
  rope.pool = pool;
  rope.layer = layer;
  OCTAVO_RETURN_IF_ERROR(backend_.RopeAndWriteKv(rope));

  PagedAttentionParams attention;
  attention.q = q;
  attention.out = attended;
  attention.num_heads = config.num_heads;
  attention.num_kv_heads = config.num_kv_heads;
  attention.head_dim = config.head_dim;
  attention.scale = config.attention_scale > 0
                        ? config.attention_scale
                        : 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  attention.softcap = config.attention_softcap;
  attention.sliding_window = window;
  attention.batch = &batch;
  attention.pool = pool;
  attention.layer = layer;
  OCTAVO_RETURN_IF_ERROR(backend_.PagedAttention(attention));

  const Matrix added = config.post_norms ? Rows(added_, hidden.rows, hidden.cols) : hidden;
  // Rank 0 brings what hidden was, the others only their products.
  const Epilogue epilogue =
      config.post_norms || model_.split.place.rank != 0 ? Epilogue::kStore : Epilogue::kAdd;
  const RmsNorm ffn_norm = Norm(weights.ffn_norm);
  OCTAVO_RETURN_IF_ERROR(
      backend_.Linear({weights.output.get(), {}, attended, nullptr, epilogue, added}));
  OCTAVO_RETURN_IF_ERROR(AddToHidden(added, weights.post_attention_norm, ffn_norm));

  FeedForwardParams ffn;
  ffn.gate_up = weights.gate_up.get();
  ffn.norm = ffn_norm;
  ffn.x = hidden;
  ffn.gate = GateOf(config.activation);
  ffn.gated = Rows(gated_, batch.num_rows, config.intermediate_size);
  ffn.down = weights.down.get();
  ffn.epilogue = epilogue;
  ffn.out = added;
  OCTAVO_RETURN_IF_ERROR(backend_.FeedForward(ffn));
  RmsNorm next;
  if (layer + 1 < config.num_layers)
    next = Norm(model_.layers[static_cast<size_t>(layer) + 1].attention_norm);
  return AddToHidden(added, weights.post_ffn_norm, next);
}

absl::Status Decoder::SumOverRanks(const Matrix& x) {
  if (communicator_ == nullptr) return absl::OkStatus();
  return communicator_->AllReduceSum(x.data, x.rows * x.cols);
}

absl::Status Decoder::AddToHidden(const Matrix& added, const Buffer& post_norm,
                                  const RmsNorm& next) {
  OCTAVO_RETURN_IF_ERROR(SumOverRanks(added));
  if (!model_.config.post_norms) return absl::OkStatus();
  const Matrix hidden = Rows(hidden_, added.rows, added.cols);
  return backend_.AddNormed({added, Norm(post_norm), hidden, next});
}

}  // namespace octavo
