#include "tests/fuzz/checkpoint_fuzz.h"

#include <memory>
#include <span>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/check.h"
#include "common/checkpoint/dequantize.h"
#include "common/checkpoint/gguf.h"
#include "common/checkpoint/hf_model.h"
#include "common/checkpoint/model_files.h"
#include "common/checkpoint/safetensors.h"

namespace octavo {
namespace {

constexpr char kPath[] = "fuzzed.file";

// Reads every byte of every tensor. Tensors share no bytes, so this is linear in the input.
void ReadAll(const TensorTable& tensors) {
  for (const auto& [name, tensor] : tensors) {
    const int64_t rows = tensor.bytes / StorageBytes(tensor.dtype, tensor.cols());
    std::vector<float> row(static_cast<size_t>(tensor.cols()));
    for (int64_t i = 0; i < rows; ++i) {
      const std::byte* start = tensor.data + i * StorageBytes(tensor.dtype, tensor.cols());
      OCTAVO_CHECK(DequantizeRow(tensor.dtype, start, tensor.cols(), row.data()).ok());
    }
  }
}

// Every refusal names the file.
bool Taken(const absl::Status& status) {
  OCTAVO_CHECK(status.ok() || absl::StrContains(status.message(), kPath), status.ToString());
  return status.ok();
}

void CheckTokenizer(const TokenizerSpec& spec, int32_t vocab_size) {
  const auto valid = [vocab_size](TokenId id) { return id >= 0 && id < vocab_size; };
  OCTAVO_CHECK(spec.tokens.size() <= static_cast<size_t>(vocab_size));
  OCTAVO_CHECK(!spec.unknown_id || valid(*spec.unknown_id));
  for (const auto& [byte, id] : spec.byte_tokens) OCTAVO_CHECK(valid(id));
  const bool pieces = spec.model == TokenizerModel::kPieces;
  OCTAVO_CHECK(spec.scores.size() == (pieces ? spec.tokens.size() : 0));
  OCTAVO_CHECK(!spec.bos_id || valid(*spec.bos_id));
  for (TokenId id : spec.eos_ids) OCTAVO_CHECK(valid(id));
  for (const AddedToken& token : spec.added) OCTAVO_CHECK(valid(token.id) && !token.text.empty());
}

}  // namespace

bool FuzzGguf(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = GgufFile::Parse(bytes, kPath);
  if (!Taken(file.status())) return false;
  ReadAll(file->tensors());
  const auto parts = ReadGgufModel(bytes, kPath);
  if (!Taken(parts.status())) return false;
  OCTAVO_CHECK(Validate(parts->config).ok());
  CheckTokenizer(parts->tokenizer, parts->config.vocab_size);
  OCTAVO_CHECK(ModelDigest(parts->config, parts->tensors).size() == 64);
  return true;
}

bool FuzzSafetensors(const uint8_t* data, size_t size) {
  RealignedTensors realigned;
  const auto table = ReadSafetensors(std::as_bytes(std::span(data, size)), kPath, &realigned);
  if (!Taken(table.status())) return false;
  for (const auto& [name, tensor] : *table) {
    if (tensor.shape.empty()) return false;  // a scalar: no row to read
  }
  ReadAll(*table);
  return true;
}

bool FuzzHfJson(const uint8_t* data, size_t size) {
  if (size == 0) return false;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == '0') {
    const auto config = ReadHfConfig(text, kPath);
    if (!Taken(config.status())) return false;
    OCTAVO_CHECK(Validate(config->model).ok());
    return true;
  }
  if (data[0] == '4') return Taken(ParseShardIndex(text, kPath).status());

  constexpr int32_t kVocabSize = 32;
  constexpr char kTokenizer[] =
      R"({"model": {"vocab": {"<|end|>": 0, "a": 1}, "merges": []},
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}})";
  HfTexts texts;
  texts.config = "{}";
  texts.tokenizer = kTokenizer;
  switch (data[0]) {
    case '1':
      texts.tokenizer = text;
      break;
    case '2':
      texts.tokenizer_config = text;
      break;
    case '3':
      texts.generation_config = text;
      break;
    default:
      return false;
  }
  const auto spec = ReadHfTokenizer(texts, kVocabSize, kPath);
  if (!Taken(spec.status())) return false;
  CheckTokenizer(*spec, kVocabSize);
  return true;
}

}  // namespace octavo
