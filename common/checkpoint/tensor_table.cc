#include "common/checkpoint/tensor_table.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/checkpoint/sha256.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

struct RoleName {
  TensorRole role;
  bool per_layer;
  absl::string_view gguf;
  absl::string_view hugging_face;
};

// GGUF: gguf-py's constants.py (TENSOR_NAMES). Hugging Face: the modules of LlamaForCausalLM, which
// Mistral, Qwen2 and Qwen3 share; the post norms are those of Gemma2ForCausalLM.
constexpr std::array kRoleNames = {
    RoleName{TensorRole::kTokenEmbedding, false, "token_embd.weight", "model.embed_tokens.weight"},
    RoleName{TensorRole::kOutputNorm, false, "output_norm.weight", "model.norm.weight"},
    RoleName{TensorRole::kOutput, false, "output.weight", "lm_head.weight"},
    RoleName{TensorRole::kAttentionNorm, true, "attn_norm.weight", "input_layernorm.weight"},
    RoleName{TensorRole::kQuery, true, "attn_q.weight", "self_attn.q_proj.weight"},
    RoleName{TensorRole::kKey, true, "attn_k.weight", "self_attn.k_proj.weight"},
    RoleName{TensorRole::kValue, true, "attn_v.weight", "self_attn.v_proj.weight"},
    RoleName{TensorRole::kAttentionOutput, true, "attn_output.weight", "self_attn.o_proj.weight"},
    RoleName{TensorRole::kQueryBias, true, "attn_q.bias", "self_attn.q_proj.bias"},
    RoleName{TensorRole::kKeyBias, true, "attn_k.bias", "self_attn.k_proj.bias"},
    RoleName{TensorRole::kValueBias, true, "attn_v.bias", "self_attn.v_proj.bias"},
    RoleName{TensorRole::kAttentionOutputBias, true, "attn_output.bias", "self_attn.o_proj.bias"},
    RoleName{TensorRole::kQueryNorm, true, "attn_q_norm.weight", "self_attn.q_norm.weight"},
    RoleName{TensorRole::kKeyNorm, true, "attn_k_norm.weight", "self_attn.k_norm.weight"},
    RoleName{TensorRole::kFfnNorm, true, "ffn_norm.weight", "post_attention_layernorm.weight"},
    RoleName{TensorRole::kPostAttentionNorm, true, "post_attention_norm.weight",
             "post_attention_layernorm.weight"},
    RoleName{TensorRole::kPostFfnNorm, true, "post_ffw_norm.weight",
             "post_feedforward_layernorm.weight"},
    RoleName{TensorRole::kGate, true, "ffn_gate.weight", "mlp.gate_proj.weight"},
    RoleName{TensorRole::kUp, true, "ffn_up.weight", "mlp.up_proj.weight"},
    RoleName{TensorRole::kDown, true, "ffn_down.weight", "mlp.down_proj.weight"},
    RoleName{TensorRole::kGateBias, true, "ffn_gate.bias", "mlp.gate_proj.bias"},
    RoleName{TensorRole::kUpBias, true, "ffn_up.bias", "mlp.up_proj.bias"},
    RoleName{TensorRole::kDownBias, true, "ffn_down.bias", "mlp.down_proj.bias"},
};

const RoleName& NameOf(TensorRole role) {
  const auto it = std::find_if(kRoleNames.begin(), kRoleNames.end(),
                               [role](const RoleName& name) { return name.role == role; });
  OCTAVO_CHECK(it != kRoleNames.end(), "role ", static_cast<int>(role));
  return *it;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Read elsewhere, or recomputed from the configuration.
bool IsAuxiliary(TensorNaming naming, const ModelConfig& config, absl::string_view name) {
  if (naming == TensorNaming::kGguf) return name == "rope_freqs.weight";
  return absl::EndsWith(name, ".self_attn.rotary_emb.inv_freq") ||
         (config.tied_embeddings && name == "lm_head.weight");
}

void HashRope(const RopeConfig& rope, Sha256& hash) {
  hash.Update(absl::StrJoin({rope.rotary_dim, static_cast<int32_t>(rope.style),
                             static_cast<int32_t>(rope.scaling), rope.original_max_positions},
                            " "));
  std::vector<float> numbers = {rope.theta,
                                rope.factor,
                                rope.low_freq_factor,
                                rope.high_freq_factor,
                                rope.attention_factor,
                                rope.beta_fast,
                                rope.beta_slow};
  numbers.insert(numbers.end(), rope.frequency_factors.begin(), rope.frequency_factors.end());
  hash.Update(std::as_bytes(std::span(numbers)));
}

}  // namespace

std::string TensorName(TensorNaming naming, TensorRole role, int32_t layer) {
  const RoleName& name = NameOf(role);
  const bool gguf = naming == TensorNaming::kGguf;
  absl::string_view last = gguf ? name.gguf : name.hugging_face;
  if (naming == TensorNaming::kGemma && role == TensorRole::kFfnNorm) {
    last = "pre_feedforward_layernorm.weight";
  }
  if (!name.per_layer) return std::string(last);
  return absl::StrCat(gguf ? "blk." : "model.layers.", layer, ".", last);
}

bool HasRole(const ModelConfig& config, TensorRole role) {
  switch (role) {
    case TensorRole::kQueryBias:
    case TensorRole::kKeyBias:
    case TensorRole::kValueBias:
      return config.qkv_bias;
    case TensorRole::kAttentionOutputBias:
      return config.output_bias;
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm:
      return config.qk_norm;
    case TensorRole::kPostAttentionNorm:
    case TensorRole::kPostFfnNorm:
      return config.post_norms;
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
    case TensorRole::kDownBias:
      return config.mlp_bias;
    default:
      return true;
  }
}

std::vector<int64_t> RoleShape(const ModelConfig& config, TensorRole role) {
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  const int64_t query = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv = int64_t{config.num_kv_heads} * config.head_dim;
  switch (role) {
    case TensorRole::kTokenEmbedding:
    case TensorRole::kOutput:
      return {config.vocab_size, hidden};
    case TensorRole::kOutputNorm:
    case TensorRole::kAttentionNorm:
    case TensorRole::kPostAttentionNorm:
    case TensorRole::kFfnNorm:
    case TensorRole::kPostFfnNorm:
    case TensorRole::kAttentionOutputBias:
    case TensorRole::kDownBias:
      return {hidden};
    case TensorRole::kQuery:
      return {query, hidden};
    case TensorRole::kKey:
    case TensorRole::kValue:
      return {kv, hidden};
    case TensorRole::kAttentionOutput:
      return {hidden, query};
    case TensorRole::kQueryBias:
      return {query};
    case TensorRole::kKeyBias:
    case TensorRole::kValueBias:
      return {kv};
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm:
      return {config.head_dim};
    case TensorRole::kGate:
    case TensorRole::kUp:
      return {intermediate, hidden};
    case TensorRole::kDown:
      return {hidden, intermediate};
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
      return {intermediate};
  }
  OCTAVO_CHECK(false, "role ", static_cast<int>(role));
}

absl::StatusOr<TensorRef> FindTensor(const TensorTable& table, TensorNaming naming,
                                     const ModelConfig& config, TensorRole role, int32_t layer,
                                     absl::string_view path) {
  if (role == TensorRole::kOutput && config.tied_embeddings) role = TensorRole::kTokenEmbedding;
  if (NameOf(role).per_layer && (layer < 0 || layer >= config.num_layers)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": layer ", layer, " does not exist; the model has ", config.num_layers, " layers"));
  }
  const std::string name = TensorName(naming, role, layer);
  if (!HasRole(config, role)) {
    return absl::NotFoundError(absl::StrCat(path, ": this model has no tensor \"", name, "\""));
  }
  const auto it = table.find(name);
  if (it == table.end()) {
    return absl::NotFoundError(absl::StrCat(path, ": tensor \"", name, "\" is missing"));
  }
  const TensorRef& tensor = it->second;
  const std::vector<int64_t> shape = RoleShape(config, role);
  if (tensor.shape != shape) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": tensor \"", name, "\" has shape ",
                                                   ShapeText(tensor.shape),
                                                   "; the configuration wants ", ShapeText(shape)));
  }
  if (shape.size() == 1 && !IsFloat(tensor.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": tensor \"", name, "\" has type ",
                                                   Info(tensor.dtype).name,
                                                   "; norms and biases must be F32, F16 or BF16"));
  }
  return tensor;
}

absl::Status CheckTensors(const TensorTable& table, TensorNaming naming, const ModelConfig& config,
                          absl::string_view path) {
  size_t expected = 0;
  for (const RoleName& name : kRoleNames) {
    if (!HasRole(config, name.role)) continue;
    if (name.role == TensorRole::kOutput && config.tied_embeddings) continue;
    const int32_t count = name.per_layer ? config.num_layers : 1;
    for (int32_t layer = 0; layer < count; ++layer) {
      const auto tensor = FindTensor(table, naming, config, name.role, layer, path);
      if (absl::IsNotFound(tensor.status())) {  // NOT_FOUND from Open would mean the file
        return absl::InvalidArgumentError(tensor.status().message());
      }
      OCTAVO_RETURN_IF_ERROR(tensor.status());
      ++expected;
    }
  }
  for (const auto& [name, tensor] : table) {
    if (IsAuxiliary(naming, config, name)) ++expected;
  }
  if (expected == table.size()) return absl::OkStatus();

  TensorTable unknown = table;
  for (const RoleName& name : kRoleNames) {
    if (!HasRole(config, name.role)) continue;
    const int32_t count = name.per_layer ? config.num_layers : 1;
    for (int32_t layer = 0; layer < count; ++layer) {
      unknown.erase(TensorName(naming, name.role, layer));
    }
  }
  for (const auto& [name, tensor] : unknown) {
    if (IsAuxiliary(naming, config, name)) continue;
    return absl::UnimplementedError(absl::StrCat(
        path, ": tensor \"", absl::CHexEscape(name), "\" is not part of a ", config.num_layers,
        "-layer ", config.family, " model as this engine knows it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> CheckedTensorBytes(DType dtype, const std::vector<int64_t>& shape,
                                           absl::string_view path, absl::string_view tensor) {
  const DTypeInfo info = Info(dtype);
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size <= 0 || __builtin_mul_overflow(elements, size, &elements)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor ", tensor, " has shape ", ShapeText(shape),
                       "; sizes must be positive and their product must fit 63 bits"));
    }
  }
  const int64_t cols = shape.empty() ? 1 : shape.back();
  if (cols % info.block_elements != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": tensor ", tensor, " of type ", info.name, " has rows of ", cols,
                     " elements, which is not a multiple of the block of ", info.block_elements));
  }
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / info.block_elements, int64_t{info.block_bytes}, &bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": tensor ", tensor, " of shape ",
                                                   ShapeText(shape),
                                                   " has a size in bytes beyond 63 bits"));
  }
  return bytes;
}

absl::Status CheckNoOverlap(const TensorTable& table, absl::string_view path) {
  std::vector<const TensorRef*> order;
  order.reserve(table.size());
  for (const auto& [name, tensor] : table) {
    if (tensor.bytes > 0) order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const TensorRef* a, const TensorRef* b) { return a->data < b->data; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorRef& before = *order[i - 1];
    if (order[i]->data - before.data < before.bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": tensors \"", absl::CHexEscape(before.name), "\" and \"",
          absl::CHexEscape(order[i]->name), "\" share bytes: the first has ", before.bytes,
          ", the second starts ", order[i]->data - before.data, " after it"));
    }
  }
  return absl::OkStatus();
}

std::string ModelDigest(const ModelConfig& config, const TensorTable& table) {
  constexpr int64_t kSampleBytes = 4096;  // at the start and in the middle of each tensor
  Sha256 hash;
  hash.Update(absl::StrCat(
      "octavo-model-2 ", config.family, " ",
      absl::StrJoin(
          {config.num_layers, config.hidden_size, config.intermediate_size, config.num_heads,
           config.num_kv_heads, config.head_dim, config.vocab_size, config.max_positions,
           static_cast<int32_t>(config.activation), static_cast<int32_t>(config.tied_embeddings),
           static_cast<int32_t>(config.qkv_bias), static_cast<int32_t>(config.output_bias),
           static_cast<int32_t>(config.mlp_bias), static_cast<int32_t>(config.qk_norm),
           static_cast<int32_t>(config.post_norms)},
          " "),
      " ", absl::StrJoin(config.layer_windows, ","), " "));
  const std::array numbers = {config.norm_eps,          config.norm_offset,
                              config.embedding_scale,   config.attention_scale,
                              config.attention_softcap, config.logit_softcap};
  hash.Update(std::as_bytes(std::span(numbers)));
  HashRope(config.rope, hash);
  if (config.local_rope) HashRope(*config.local_rope, hash);
  for (const auto& [name, tensor] : table) {
    hash.Update(
        absl::StrCat("\n", name, " ", Info(tensor.dtype).name, " ", ShapeText(tensor.shape), "\n"));
    const std::span data(tensor.data, static_cast<size_t>(tensor.bytes));
    if (tensor.bytes <= 2 * kSampleBytes) {
      hash.Update(data);
      continue;
    }
    hash.Update(data.first(kSampleBytes));
    hash.Update(data.subspan(static_cast<size_t>(tensor.bytes / 2), kSampleBytes));
  }
  return hash.HexDigest();
}

}  // namespace octavo
