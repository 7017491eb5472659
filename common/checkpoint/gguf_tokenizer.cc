#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/gguf_model.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

// enum llama_token_type of llama.cpp.
enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Pre-tokenizers for which llama.cpp (llama-vocab.cpp) looks a whole piece up before merging; the
// Llama 3 ones also add BOS unless the file says otherwise.
struct PreDefaults {
  absl::string_view name;
  bool ignore_merges;
  bool add_bos;
};
constexpr std::array kPreDefaults = {
    PreDefaults{"llama3", true, true},    PreDefaults{"llama-v3", true, true},
    PreDefaults{"llama-bpe", true, true}, PreDefaults{"falcon3", true, true},
    PreDefaults{"tekken", true, true},
};

// The byte of "<0x0A>".
std::optional<uint8_t> ByteOf(absl::string_view text) {
  uint32_t byte = 0;
  if (text.size() != 6 || !absl::StartsWith(text, "<0x") || text[5] != '>' ||
      !absl::SimpleHexAtoi(text.substr(3, 2), &byte)) {
    return std::nullopt;
  }
  return static_cast<uint8_t>(byte);
}

absl::Status ReadTokens(const GgufFile& file, int32_t vocab_size, TokenizerSpec* spec) {
  const bool pieces = spec->model == TokenizerModel::kPieces;
  OCTAVO_ASSIGN_OR_RETURN(const GgufArray* tokens,
                          file.Array("tokenizer.ggml.tokens", GgufType::kString));
  if (tokens == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": metadata \"tokenizer.ggml.tokens\" is missing"));
  }
  if (tokens->count > vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": metadata \"tokenizer.ggml.tokens\" has ", tokens->count,
                     " tokens; the vocabulary has ", vocab_size));
  }
  OCTAVO_ASSIGN_OR_RETURN(const GgufArray* types,
                          file.Array("tokenizer.ggml.token_type", GgufType::kInt32));
  if (types != nullptr && types->count != tokens->count) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": metadata \"tokenizer.ggml.token_type\" has ", types->count,
                     " entries for ", tokens->count, " tokens"));
  }
  spec->tokens.reserve(static_cast<size_t>(tokens->count));
  for (int64_t id = 0; id < tokens->count; ++id) {
    const absl::string_view text = tokens->strings[static_cast<size_t>(id)];
    const int64_t type = types == nullptr ? kNormal : types->Integer(id).value_or(0);
    switch (type) {
      case kNormal:
      case kUnknown:
        break;
      case kByte:
        if (!pieces) break;
        if (const std::optional<uint8_t> byte = ByteOf(text)) {
          spec->byte_tokens.emplace_back(*byte, static_cast<TokenId>(id));
          break;
        }
        return absl::InvalidArgumentError(absl::StrCat(file.path(), ": byte token ", id, " is \"",
                                                       absl::CHexEscape(text.substr(0, 120)),
                                                       "\"; \"<0x0A>\" is expected"));
      case kControl:
      case kUserDefined:
        if (text.empty()) {
          return absl::InvalidArgumentError(
              absl::StrCat(file.path(), ": token ", id, " has type ", type, " and no text"));
        }
        spec->added.push_back({static_cast<TokenId>(id), std::string(text), type == kControl});
        break;
      case kUnused:
        spec->tokens.emplace_back(pieces ? text : absl::string_view());
        continue;
      default:
        return absl::InvalidArgumentError(
            absl::StrCat(file.path(), ": metadata \"tokenizer.ggml.token_type\" is ", type,
                         " for token ", id, "; 1 to 6 are valid"));
    }
    spec->tokens.emplace_back(text);
  }
  return absl::OkStatus();
}

// SentencePiece: scores, and what else there is only with them. Defaults are llama.cpp's.
absl::Status ReadPieces(const GgufFile& file, TokenizerSpec* spec) {
  const auto count = static_cast<int64_t>(spec->tokens.size());
  OCTAVO_ASSIGN_OR_RETURN(const GgufArray* scores,
                          file.Array("tokenizer.ggml.scores", GgufType::kFloat32));
  if (scores == nullptr || scores->count != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": metadata \"tokenizer.ggml.scores\" has ",
        scores == nullptr ? 0 : scores->count, " entries for ", spec->tokens.size(), " tokens"));
  }
  spec->scores.reserve(spec->tokens.size());
  for (int64_t id = 0; id < count; ++id) {
    const float score = scores->Float(id);
    if (std::isnan(score)) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": the score of token ", id, " is no number"));
    }
    spec->scores.push_back(score);
  }
  for (const auto& [byte, id] : spec->byte_tokens) {  // nothing merges into these
    spec->scores[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
  OCTAVO_ASSIGN_OR_RETURN(const auto unknown,
                          file.Integer("tokenizer.ggml.unknown_token_id", 0, count - 1));
  if (unknown) spec->unknown_id = static_cast<TokenId>(*unknown);
  OCTAVO_ASSIGN_OR_RETURN(const auto prefix, file.Bool("tokenizer.ggml.add_space_prefix"));
  spec->space_prefix = prefix.value_or(true) ? SpacePrefix::kEach : SpacePrefix::kNone;
  spec->add_bos = true;
  return absl::OkStatus();
}

absl::Status ReadMerges(const GgufFile& file, TokenizerSpec* spec) {
  OCTAVO_ASSIGN_OR_RETURN(const GgufArray* merges,
                          file.Array("tokenizer.ggml.merges", GgufType::kString));
  if (merges == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": metadata \"tokenizer.ggml.merges\" is missing"));
  }
  spec->merges.reserve(merges->strings.size());
  for (const absl::string_view merge : merges->strings) {
    const size_t space = merge.find(' ');
    if (space == absl::string_view::npos || space == 0 || space + 1 == merge.size() ||
        merge.find(' ', space + 1) != absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": merge ", spec->merges.size(), " is \"",
                       absl::CHexEscape(merge.substr(0, 120)),
                       "\"; two parts separated by one space are expected"));
    }
    spec->merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return absl::OkStatus();
}

absl::Status ReadPre(const GgufFile& file, TokenizerSpec* spec) {
  OCTAVO_ASSIGN_OR_RETURN(const auto pre, file.String("tokenizer.ggml.pre"));
  spec->pre_name = pre ? std::string(*pre) : "default";
  for (const PreDefaults& defaults : kPreDefaults) {
    if (defaults.name != spec->pre_name) continue;
    spec->ignore_merges = defaults.ignore_merges;
    spec->add_bos = defaults.add_bos;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerSpec> ReadGgufTokenizer(const GgufFile& file, int32_t vocab_size) {
  OCTAVO_ASSIGN_OR_RETURN(const auto model, file.String("tokenizer.ggml.model"));
  if (!model) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": metadata \"tokenizer.ggml.model\" is missing"));
  }
  if (*model != "gpt2" && *model != "llama") {
    return absl::UnimplementedError(absl::StrCat(
        file.path(), ": metadata \"tokenizer.ggml.model\" is \"", absl::CHexEscape(*model),
        "\"; gpt2 (byte-level BPE) and llama (SentencePiece BPE) are supported"));
  }
  TokenizerSpec spec;
  if (*model == "llama") spec.model = TokenizerModel::kPieces;
  OCTAVO_RETURN_IF_ERROR(ReadTokens(file, vocab_size, &spec));
  if (spec.model == TokenizerModel::kPieces) {
    OCTAVO_RETURN_IF_ERROR(ReadPieces(file, &spec));
  } else {
    OCTAVO_RETURN_IF_ERROR(ReadMerges(file, &spec));
    OCTAVO_RETURN_IF_ERROR(ReadPre(file, &spec));
  }

  const int64_t last = static_cast<int64_t>(spec.tokens.size()) - 1;
  OCTAVO_ASSIGN_OR_RETURN(const auto bos, file.Integer("tokenizer.ggml.bos_token_id", 0, last));
  if (bos) spec.bos_id = static_cast<TokenId>(*bos);
  OCTAVO_ASSIGN_OR_RETURN(const auto add_bos, file.Bool("tokenizer.ggml.add_bos_token"));
  if (add_bos) spec.add_bos = *add_bos;
  if (spec.add_bos && !spec.bos_id) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": BOS is to be added, but \"tokenizer.ggml.bos_token_id\" is missing"));
  }
  OCTAVO_ASSIGN_OR_RETURN(const auto add_eos, file.Bool("tokenizer.ggml.add_eos_token"));
  if (add_eos && *add_eos) {
    return absl::UnimplementedError(
        absl::StrCat(file.path(),
                     ": metadata \"tokenizer.ggml.add_eos_token\" is true; prompts that end with "
                     "EOS are not supported"));
  }
  for (absl::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    OCTAVO_ASSIGN_OR_RETURN(const auto id, file.Integer(key, 0, last));
    if (id && (spec.eos_ids.empty() || spec.eos_ids.front() != *id)) {
      spec.eos_ids.push_back(static_cast<TokenId>(*id));
    }
  }
  OCTAVO_ASSIGN_OR_RETURN(const auto chat_template, file.String("tokenizer.chat_template"));
  if (chat_template) spec.chat_template = std::string(*chat_template);
  return spec;
}

}  // namespace octavo
