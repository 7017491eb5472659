// tokenizer.json of vocabularies that were SentencePiece models: BPE with byte_fallback.
#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/hf_model.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

constexpr char kSpacePiece[] = "\u2581";

absl::StatusOr<const std::string*> TypeOf(const JsonObject& step) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string* type, step.String("type"));
  if (type == nullptr) return step.Missing("type");
  return type;
}

// {"type": "Replace", "pattern": {"String": from}, "content": to} and nothing else.
absl::Status CheckReplace(const JsonObject& step, absl::string_view from, absl::string_view to) {
  OCTAVO_ASSIGN_OR_RETURN(const auto pattern, step.Object("pattern"));
  OCTAVO_ASSIGN_OR_RETURN(const std::string* content, step.String("content"));
  const std::string* text = nullptr;
  if (pattern) {
    OCTAVO_ASSIGN_OR_RETURN(text, pattern->String("String"));
  }
  if (text != nullptr && *text == from && content != nullptr && *content == to) {
    return absl::OkStatus();
  }
  return step.Unimplemented("pattern", pattern ? ShowJson(pattern->json()) : "missing",
                            "only exchanging spaces and U+2581 is");
}

// Calls `read` for the step, or for each of a Sequence's under `key`. One level: sequences of
// sequences are not written by anyone.
template <typename Read>
absl::Status ForSteps(const JsonObject& step, absl::string_view key, Read read) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string* type, TypeOf(step));
  if (*type != "Sequence") return read(step, *type);
  OCTAVO_ASSIGN_OR_RETURN(const Json* steps, step.Array(key));
  if (steps == nullptr) return step.Missing(key);
  for (size_t i = 0; i < steps->size(); ++i) {
    OCTAVO_ASSIGN_OR_RETURN(const JsonObject inner, JsonObject::From((*steps)[i], step.Name(key),
                                                                     absl::StrCat("[", i, "]")));
    OCTAVO_ASSIGN_OR_RETURN(const std::string* inner_type, TypeOf(inner));
    OCTAVO_RETURN_IF_ERROR(read(inner, *inner_type));
  }
  return absl::OkStatus();
}

absl::Status ReadNormalizerStep(const JsonObject& step, const std::string& type,
                                TokenizerSpec* spec) {
  if (type == "Replace") return CheckReplace(step, " ", kSpacePiece);
  if (type == "Prepend") {
    OCTAVO_ASSIGN_OR_RETURN(const std::string* text, step.String("prepend"));
    if (text != nullptr && *text == kSpacePiece) {
      spec->space_prefix = SpacePrefix::kEach;
      return absl::OkStatus();
    }
    return step.Unimplemented("prepend", text == nullptr ? "missing" : ShowJson(Json(*text)),
                              "only U+2581 is");
  }
  return step.Unimplemented("type", ShowJson(Json(type)), "Replace and Prepend are");
}

absl::Status ReadPreTokenizerStep(const JsonObject& step, const std::string& type,
                                  TokenizerSpec* spec) {
  if (type == "Split") {  // cuts at spaces, of which the normalizer has left none
    OCTAVO_ASSIGN_OR_RETURN(const auto pattern, step.Object("pattern"));
    if (pattern && pattern->json() == Json{{"String", " "}}) return absl::OkStatus();
    return step.Unimplemented("pattern", pattern ? ShowJson(pattern->json()) : "missing",
                              "only a space is");
  }
  if (type != "Metaspace") {
    return step.Unimplemented("type", ShowJson(Json(type)), "Metaspace and Split are");
  }
  OCTAVO_ASSIGN_OR_RETURN(const std::string* replacement, step.String("replacement"));
  if (replacement == nullptr || *replacement != kSpacePiece) {
    return step.Unimplemented("replacement",
                              replacement == nullptr ? "missing" : ShowJson(Json(*replacement)),
                              "only U+2581 is");
  }
  OCTAVO_ASSIGN_OR_RETURN(const auto split, step.Bool("split"));
  if (split.value_or(true)) return step.Unimplemented("split", "true", "only false is");
  OCTAVO_ASSIGN_OR_RETURN(const std::string* scheme, step.String("prepend_scheme"));
  if (scheme != nullptr && *scheme == "never") return absl::OkStatus();
  if (scheme != nullptr && *scheme == "first") {
    spec->space_prefix = SpacePrefix::kFirst;
    return absl::OkStatus();
  }
  return step.Unimplemented("prepend_scheme",
                            scheme == nullptr ? "missing" : ShowJson(Json(*scheme)),
                            "first and never are");
}

// A Strip at the start would also take the space of a continuation's first word, so the decoder
// here never strips.
absl::Status CheckDecoderStep(const JsonObject& step, const std::string& type) {
  if (type == "Replace") return CheckReplace(step, kSpacePiece, " ");
  if (type == "ByteFallback" || type == "Fuse" || type == "Strip" || type == "Metaspace") {
    return absl::OkStatus();
  }
  return step.Unimplemented("type", ShowJson(Json(type)),
                            "Replace, ByteFallback, Fuse, Strip and Metaspace are");
}

}  // namespace

absl::Status ReadHfPieces(const JsonObject& model,
                          const std::unordered_map<std::string, TokenId>& ids,
                          TokenizerSpec* spec) {
  spec->model = TokenizerModel::kPieces;
  if (spec->ignore_merges) return model.Unimplemented("ignore_merges", "true", "only false is");
  // The rank of a merge is that of its result in the SentencePiece model: the converter lists, best
  // result first, all pairs that give it.
  spec->scores.assign(spec->tokens.size(), -std::numeric_limits<float>::infinity());
  for (size_t rank = 0; rank < spec->merges.size(); ++rank) {
    const auto& [left, right] = spec->merges[rank];
    const auto merged = ids.find(left + right);
    if (merged == ids.end()) {
      return absl::InvalidArgumentError(absl::StrCat(model.Name("merges"), "[", rank, "] gives ",
                                                     ShowJson(Json(left + right)),
                                                     ", which is not in the vocabulary"));
    }
    float& score = spec->scores[static_cast<size_t>(merged->second)];
    score = std::max(score, -static_cast<float>(rank));
  }
  spec->merges.clear();
  for (int byte = 0; byte < 256; ++byte) {
    const auto it = ids.find(absl::StrCat(
        "<0x", absl::AsciiStrToUpper(absl::StrCat(absl::Hex(byte, absl::kZeroPad2))), ">"));
    if (it != ids.end()) spec->byte_tokens.emplace_back(static_cast<uint8_t>(byte), it->second);
  }
  OCTAVO_ASSIGN_OR_RETURN(const std::string* unknown, model.String("unk_token"));
  if (unknown == nullptr) return absl::OkStatus();
  const auto it = ids.find(*unknown);
  if (it != ids.end()) spec->unknown_id = it->second;
  return absl::OkStatus();
}

absl::Status ReadHfPiecesPipeline(const JsonObject& tokenizer, TokenizerSpec* spec) {
  OCTAVO_ASSIGN_OR_RETURN(const auto normalizer, tokenizer.Object("normalizer"));
  if (normalizer) {
    OCTAVO_RETURN_IF_ERROR(
        ForSteps(*normalizer, "normalizers", [&](const JsonObject& step, const std::string& type) {
          return ReadNormalizerStep(step, type, spec);
        }));
  }
  OCTAVO_ASSIGN_OR_RETURN(const auto pre_tokenizer, tokenizer.Object("pre_tokenizer"));
  if (pre_tokenizer) {
    OCTAVO_RETURN_IF_ERROR(ForSteps(*pre_tokenizer, "pretokenizers",
                                    [&](const JsonObject& step, const std::string& type) {
                                      return ReadPreTokenizerStep(step, type, spec);
                                    }));
  }
  OCTAVO_ASSIGN_OR_RETURN(const auto decoder, tokenizer.Object("decoder"));
  if (!decoder) return absl::OkStatus();
  return ForSteps(*decoder, "decoders", CheckDecoderStep);
}

}  // namespace octavo
