// Writes small model files byte by byte, valid unless told otherwise.
#ifndef OCTAVO_TESTS_COMMON_CHECKPOINT_FILE_BUILDERS_H_
#define OCTAVO_TESTS_COMMON_CHECKPOINT_FILE_BUILDERS_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/check.h"

namespace octavo {

template <typename T>
std::string Bytes(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline std::span<const std::byte> AsBytes(absl::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Tensor data: element i is a distinct small multiple of 1/64, exact in float32 and float16.
inline std::string CountingFloats(int64_t count) {
  std::string data;
  for (int64_t i = 0; i < count; ++i) data += Bytes(static_cast<float>(i % 509 - 254) / 64.0f);
  return data;
}

class GgufBuilder {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;

  static std::string String(absl::string_view text) {
    return absl::StrCat(Bytes<uint64_t>(text.size()), text);
  }

  GgufBuilder& Raw(absl::string_view key, uint32_t type, absl::string_view value) {
    metadata_.emplace_back(std::string(key), absl::StrCat(String(key), Bytes(type), value));
    return *this;
  }
  GgufBuilder& U32(absl::string_view key, uint32_t value) { return Raw(key, 4, Bytes(value)); }
  GgufBuilder& F32(absl::string_view key, float value) { return Raw(key, 6, Bytes(value)); }
  GgufBuilder& Bool(absl::string_view key, bool value) {
    return Raw(key, 7, std::string(1, value ? '\1' : '\0'));
  }
  GgufBuilder& Text(absl::string_view key, absl::string_view value) {
    return Raw(key, 8, String(value));
  }
  GgufBuilder& Texts(absl::string_view key, const std::vector<std::string>& values) {
    std::string body = absl::StrCat(Bytes<uint32_t>(8), Bytes<uint64_t>(values.size()));
    for (const std::string& value : values) body += String(value);
    return Raw(key, 9, body);
  }
  GgufBuilder& I32s(absl::string_view key, const std::vector<int32_t>& values) {
    std::string body = absl::StrCat(Bytes<uint32_t>(5), Bytes<uint64_t>(values.size()));
    for (int32_t value : values) body += Bytes(value);
    return Raw(key, 9, body);
  }
  GgufBuilder& F32s(absl::string_view key, const std::vector<float>& values) {
    std::string body = absl::StrCat(Bytes<uint32_t>(6), Bytes<uint64_t>(values.size()));
    for (float value : values) body += Bytes(value);
    return Raw(key, 9, body);
  }
  GgufBuilder& Remove(absl::string_view key) {
    std::erase_if(metadata_, [key](const auto& entry) { return entry.first == key; });
    return *this;
  }

  // `sizes` innermost first, as stored. The data follows what came before, at the alignment.
  GgufBuilder& Tensor(absl::string_view name, std::vector<uint64_t> sizes, uint32_t type,
                      absl::string_view data) {
    tensors_.push_back({std::string(name), std::move(sizes), type, Align(data_.size())});
    data_.resize(Align(data_.size()), '\0');
    data_.append(data.data(), data.size());
    return *this;
  }
  GgufBuilder& F32Tensor(absl::string_view name, std::vector<uint64_t> sizes) {
    int64_t count = 1;
    for (uint64_t size : sizes) count *= static_cast<int64_t>(size);
    return Tensor(name, std::move(sizes), 0, CountingFloats(count));
  }
  GgufBuilder& RemoveTensor(absl::string_view name) {
    std::erase_if(tensors_, [name](const auto& tensor) { return tensor.name == name; });
    return *this;
  }

  struct Entry {
    std::string name;
    std::vector<uint64_t> sizes;
    uint32_t type;
    uint64_t offset;
  };
  // For tests that spoil an entry.
  Entry& Edit(absl::string_view name) {
    for (Entry& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    OCTAVO_CHECK(false, "no tensor ", name);
  }

  std::string Header() const {
    std::string out = absl::StrCat("GGUF", Bytes(version), Bytes<uint64_t>(tensors_.size()),
                                   Bytes<uint64_t>(metadata_.size()));
    for (const auto& [key, entry] : metadata_) out += entry;
    for (const Entry& tensor : tensors_) {
      absl::StrAppend(&out, String(tensor.name), Bytes<uint32_t>(tensor.sizes.size()));
      for (uint64_t size : tensor.sizes) out += Bytes(size);
      absl::StrAppend(&out, Bytes(tensor.type), Bytes(tensor.offset));
    }
    return out;
  }
  std::string Build() const {
    std::string out = Header();
    out.resize(Align(out.size()), '\0');
    return out + data_;
  }

 private:
  uint64_t Align(uint64_t size) const { return (size + alignment - 1) / alignment * alignment; }

  std::vector<std::pair<std::string, std::string>> metadata_;
  std::vector<Entry> tensors_;
  std::string data_;
};

// A complete model of `family`: 2 layers, hidden 32, MLP 48, 4 query and 2 KV heads of 8, 12
// tokens.
inline GgufBuilder TinyGguf(const std::string& family = "llama") {
  GgufBuilder builder;
  builder.Text("general.architecture", family).Text("general.name", "tiny");
  const auto key = [&family](absl::string_view name) { return absl::StrCat(family, ".", name); };
  builder.U32(key("block_count"), 2)
      .U32(key("context_length"), 128)
      .U32(key("embedding_length"), 32)
      .U32(key("feed_forward_length"), 48)
      .U32(key("attention.head_count"), 4)
      .U32(key("attention.head_count_kv"), 2)
      .F32(key("attention.layer_norm_rms_epsilon"), 1e-5f)
      .F32(key("rope.freq_base"), 10000.0f);
  builder.Text("tokenizer.ggml.model", "gpt2")
      .Text("tokenizer.ggml.pre", "smollm")
      .Texts("tokenizer.ggml.tokens",
             {"<|end|>", "<|start|>", "<think>", "a", "b", "c", "ab", "abc", "d", "e", "f", "[P]"})
      .I32s("tokenizer.ggml.token_type", {3, 3, 4, 1, 1, 1, 1, 1, 1, 1, 1, 5})
      .Texts("tokenizer.ggml.merges", {"a b", "ab c"})
      .U32("tokenizer.ggml.bos_token_id", 1)
      .U32("tokenizer.ggml.eos_token_id", 0);
  builder.F32Tensor("token_embd.weight", {32, 12}).F32Tensor("output_norm.weight", {32});
  for (int layer = 0; layer < 2; ++layer) {
    const auto name = [layer](absl::string_view last) {
      return absl::StrCat("blk.", layer, ".", last);
    };
    builder.F32Tensor(name("attn_norm.weight"), {32})
        .F32Tensor(name("attn_q.weight"), {32, 32})
        .F32Tensor(name("attn_k.weight"), {32, 16})
        .F32Tensor(name("attn_v.weight"), {32, 16})
        .F32Tensor(name("attn_output.weight"), {32, 32})
        .F32Tensor(name("ffn_norm.weight"), {32})
        .F32Tensor(name("ffn_gate.weight"), {32, 48})
        .F32Tensor(name("ffn_up.weight"), {32, 48})
        .F32Tensor(name("ffn_down.weight"), {48, 32});
    if (family == "qwen2") {
      builder.F32Tensor(name("attn_q.bias"), {32})
          .F32Tensor(name("attn_k.bias"), {16})
          .F32Tensor(name("attn_v.bias"), {16});
    }
    if (family == "gemma2" || family == "gemma3") {
      builder.F32Tensor(name("post_attention_norm.weight"), {32})
          .F32Tensor(name("post_ffw_norm.weight"), {32});
    }
    if (family == "qwen3" || family == "gemma3") {
      builder.F32Tensor(name("attn_q_norm.weight"), {8}).F32Tensor(name("attn_k_norm.weight"), {8});
    }
  }
  return builder;
}

class SafetensorsBuilder {
 public:
  // Spaces after the header; the format does not align the data, most writers do.
  size_t header_multiple = 8;

  SafetensorsBuilder& Tensor(absl::string_view name, const std::vector<int64_t>& shape,
                             absl::string_view dtype, absl::string_view data) {
    return Raw(
        name,
        absl::StrCat(R"({"dtype":")", dtype, R"(","shape":[)", absl::StrJoin(shape, ","),
                     R"(],"data_offsets":[)", data_.size(), ",", data_.size() + data.size(), "]}"),
        data);
  }
  SafetensorsBuilder& F32(absl::string_view name, const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    return Tensor(name, shape, "F32", CountingFloats(count));
  }
  SafetensorsBuilder& Raw(absl::string_view name, absl::string_view entry,
                          absl::string_view data = "") {
    entries_.push_back(absl::StrCat("\"", name, "\":", entry));
    data_.append(data.data(), data.size());
    return *this;
  }
  std::string Build() const {
    std::string header = absl::StrCat("{", absl::StrJoin(entries_, ","), "}");
    header.resize((header.size() + header_multiple - 1) / header_multiple * header_multiple, ' ');
    return absl::StrCat(Bytes<uint64_t>(header.size()), header, data_);
  }

 private:
  std::vector<std::string> entries_;
  std::string data_;
};

// The tensors of TinyHfConfig's llama, untied; `layers` of them.
inline SafetensorsBuilder& AddTinyLayer(SafetensorsBuilder& builder, int layer) {
  const auto name = [layer](absl::string_view last) {
    return absl::StrCat("model.layers.", layer, ".", last, ".weight");
  };
  return builder.F32(name("input_layernorm"), {32})
      .F32(name("self_attn.q_proj"), {32, 32})
      .F32(name("self_attn.k_proj"), {16, 32})
      .F32(name("self_attn.v_proj"), {16, 32})
      .F32(name("self_attn.o_proj"), {32, 32})
      .F32(name("post_attention_layernorm"), {32})
      .F32(name("mlp.gate_proj"), {48, 32})
      .F32(name("mlp.up_proj"), {48, 32})
      .F32(name("mlp.down_proj"), {32, 48});
}

inline SafetensorsBuilder TinySafetensors() {
  SafetensorsBuilder builder;
  builder.F32("model.embed_tokens.weight", {12, 32}).F32("model.norm.weight", {32});
  builder.F32("lm_head.weight", {12, 32});
  AddTinyLayer(builder, 0);
  AddTinyLayer(builder, 1);
  return builder;
}

// `extra` goes into the object: R"("tie_word_embeddings": true,)".
inline std::string TinyHfConfig(absl::string_view family = "llama", absl::string_view extra = "") {
  return absl::StrCat("{", extra, R"("model_type": ")", family, R"(",
    "num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 12, "max_position_embeddings": 128,
    "hidden_act": "silu", "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 0})");
}

inline constexpr char kTinyTokenizerJson[] = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 0, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 1, "content": "<|start|>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 10, "content": "<think>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": false}],
  "normalizer": null,
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true,
              "use_regex": true},
  "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
    "vocab": {"<|end|>": 0, "<|start|>": 1, "a": 2, "b": 3, "c": 4, "ab": 5, "abc": 6, "d": 7},
    "merges": ["a b", "ab c"]}
})";

// A folder that goes away with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "octavo-XXXXXX").string();
    OCTAVO_CHECK(::mkdtemp(pattern.data()) != nullptr, pattern);
    path_ = pattern;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  // The path of the file written.
  std::string Write(absl::string_view name, absl::string_view content) const {
    const std::string file = absl::StrCat(path_, "/", name);
    std::ofstream(file, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return file;
  }

 private:
  std::string path_;
};

}  // namespace octavo

#endif  // OCTAVO_TESTS_COMMON_CHECKPOINT_FILE_BUILDERS_H_
