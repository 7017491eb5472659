#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/hf_model.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

// The regular expression of tokenizers' ByteLevel (use_regex), which is GPT-2's.
constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr size_t kMaxPasses = 64;
constexpr size_t kMaxPatternBytes = 65536;

absl::StatusOr<const std::string*> TypeOf(const JsonObject& step) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string* type, step.String("type"));
  if (type == nullptr) return step.Missing("type");
  return type;
}

absl::StatusOr<bool> Flag(const JsonObject& object, absl::string_view key, bool fallback) {
  OCTAVO_ASSIGN_OR_RETURN(const auto value, object.Bool(key));
  return value.value_or(fallback);
}

absl::Status ReadNormalizer(const JsonObject& step, TokenizerSpec* spec) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string* type, TypeOf(step));
  if (*type == "NFC") {
    spec->normalize_nfc = true;
    return absl::OkStatus();
  }
  if (*type != "Sequence") {
    return step.Unimplemented("type", ShowJson(Json(*type)), "NFC and none are");
  }
  OCTAVO_ASSIGN_OR_RETURN(const Json* steps, step.Array("normalizers"));
  if (steps == nullptr) return step.Missing("normalizers");
  for (size_t i = 0; i < steps->size(); ++i) {
    OCTAVO_ASSIGN_OR_RETURN(
        const JsonObject inner,
        JsonObject::From((*steps)[i], step.Name("normalizers"), absl::StrCat("[", i, "]")));
    OCTAVO_RETURN_IF_ERROR(ReadNormalizer(inner, spec));
  }
  return absl::OkStatus();
}

// A literal as a pattern: everything but letters, digits and non-ASCII is escaped.
std::string EscapePattern(absl::string_view literal) {
  std::string pattern;
  for (char c : literal) {
    if (static_cast<unsigned char>(c) < 128 && !absl::ascii_isalnum(c)) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

class PreTokenizerReader {
 public:
  explicit PreTokenizerReader(TokenizerSpec* spec) : spec_(spec) {}

  absl::Status Read(const JsonObject& step) {
    OCTAVO_ASSIGN_OR_RETURN(const std::string* type, TypeOf(step));
    if (*type == "Sequence") return ReadSequence(step);
    if (byte_level_) {
      return step.Unimplemented("type", ShowJson(Json(*type)), "nothing after ByteLevel is");
    }
    if (*type == "ByteLevel") return ReadByteLevel(step);
    if (*type == "Split") return ReadSplit(step);
    if (*type == "Digits") {
      OCTAVO_ASSIGN_OR_RETURN(const bool single, Flag(step, "individual_digits", false));
      return Add(step, single ? R"(\p{N})" : R"(\p{N}+)");
    }
    return step.Unimplemented("type", ShowJson(Json(*type)),
                              "Sequence, Split, Digits and ByteLevel are");
  }

  bool byte_level() const { return byte_level_; }

 private:
  absl::Status Add(const JsonObject& step, std::string pattern) {
    if (spec_->passes.size() >= kMaxPasses || pattern.size() > kMaxPatternBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          step.Name("pattern"), ": pass ", spec_->passes.size() + 1, " of ", pattern.size(),
          " bytes; the limits are ", kMaxPasses, " passes of ", kMaxPatternBytes, " bytes"));
    }
    spec_->passes.push_back({std::move(pattern)});
    return absl::OkStatus();
  }

  absl::Status ReadSequence(const JsonObject& step) {
    OCTAVO_ASSIGN_OR_RETURN(const Json* steps, step.Array("pretokenizers"));
    if (steps == nullptr) return step.Missing("pretokenizers");
    for (size_t i = 0; i < steps->size(); ++i) {
      OCTAVO_ASSIGN_OR_RETURN(
          const JsonObject inner,
          JsonObject::From((*steps)[i], step.Name("pretokenizers"), absl::StrCat("[", i, "]")));
      OCTAVO_RETURN_IF_ERROR(Read(inner));
    }
    return absl::OkStatus();
  }

  absl::Status ReadByteLevel(const JsonObject& step) {
    byte_level_ = true;
    OCTAVO_ASSIGN_OR_RETURN(const bool prefix, Flag(step, "add_prefix_space", true));
    if (prefix) return step.Unimplemented("add_prefix_space", "true", "only false is");
    OCTAVO_ASSIGN_OR_RETURN(const bool use_regex, Flag(step, "use_regex", true));
    return use_regex ? Add(step, kGpt2Pattern) : absl::OkStatus();
  }

  absl::Status ReadSplit(const JsonObject& step) {
    OCTAVO_ASSIGN_OR_RETURN(const std::string* behavior, step.String("behavior"));
    if (behavior == nullptr) return step.Missing("behavior");
    // "invert" exchanges matches and gaps, and Isolated keeps both as pieces.
    if (*behavior != "Isolated") {
      return step.Unimplemented("behavior", ShowJson(Json(*behavior)), "only Isolated is");
    }
    OCTAVO_ASSIGN_OR_RETURN(const auto pattern, step.Object("pattern"));
    if (!pattern) return step.Missing("pattern");
    OCTAVO_ASSIGN_OR_RETURN(const std::string* regex, pattern->String("Regex"));
    if (regex != nullptr) return Add(step, *regex);
    OCTAVO_ASSIGN_OR_RETURN(const std::string* literal, pattern->String("String"));
    if (literal == nullptr || literal->empty()) return step.Missing("pattern.Regex");
    return Add(step, EscapePattern(*literal));
  }

  TokenizerSpec* spec_;
  bool byte_level_ = false;
};

// TemplateProcessing: what "single" puts before the text. One special token is BOS.
absl::Status ReadTemplate(const JsonObject& step, TokenizerSpec* spec) {
  OCTAVO_ASSIGN_OR_RETURN(const Json* items, step.Array("single"));
  if (items == nullptr) return step.Missing("single");
  const std::string* before = nullptr;
  bool seen_text = false;
  for (size_t i = 0; i < items->size(); ++i) {
    OCTAVO_ASSIGN_OR_RETURN(
        const JsonObject item,
        JsonObject::From((*items)[i], step.Name("single"), absl::StrCat("[", i, "]")));
    OCTAVO_ASSIGN_OR_RETURN(const auto special, item.Object("SpecialToken"));
    if (!special) {
      seen_text = true;
      continue;
    }
    OCTAVO_ASSIGN_OR_RETURN(const std::string* id, special->String("id"));
    if (id == nullptr) return special->Missing("id");
    if (seen_text || before != nullptr) {
      return item.Unimplemented("SpecialToken", ShowJson(Json(*id)),
                                "one special token before the text is");
    }
    before = id;
  }
  if (before == nullptr) return absl::OkStatus();
  OCTAVO_ASSIGN_OR_RETURN(const auto specials, step.Object("special_tokens"));
  if (!specials) return step.Missing("special_tokens");
  OCTAVO_ASSIGN_OR_RETURN(const auto entry, specials->Object(*before));
  if (!entry) return specials->Missing(*before);
  OCTAVO_ASSIGN_OR_RETURN(const Json* ids, entry->Array("ids"));
  const std::optional<int64_t> id =
      ids != nullptr && ids->size() == 1 ? ToInt64((*ids)[0]) : std::nullopt;
  if (!id || *id < 0 || *id >= static_cast<int64_t>(spec->tokens.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(entry->Name("ids"), " is ", ids ? ids->dump().substr(0, 80) : "missing",
                     "; one token id below ", spec->tokens.size(), " is expected"));
  }
  spec->add_bos = true;
  spec->bos_id = static_cast<TokenId>(*id);
  return absl::OkStatus();
}

absl::Status ReadPostProcessor(const JsonObject& step, TokenizerSpec* spec) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string* type, TypeOf(step));
  if (*type == "ByteLevel") return absl::OkStatus();  // adjusts offsets only
  if (*type == "TemplateProcessing") return ReadTemplate(step, spec);
  if (*type != "Sequence") {
    return step.Unimplemented("type", ShowJson(Json(*type)),
                              "Sequence, ByteLevel and TemplateProcessing are");
  }
  OCTAVO_ASSIGN_OR_RETURN(const Json* steps, step.Array("processors"));
  if (steps == nullptr) return step.Missing("processors");
  for (size_t i = 0; i < steps->size(); ++i) {
    OCTAVO_ASSIGN_OR_RETURN(
        const JsonObject inner,
        JsonObject::From((*steps)[i], step.Name("processors"), absl::StrCat("[", i, "]")));
    OCTAVO_RETURN_IF_ERROR(ReadPostProcessor(inner, spec));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadHfPipeline(const JsonObject& tokenizer, TokenizerSpec* spec) {
  OCTAVO_ASSIGN_OR_RETURN(const auto post_processor, tokenizer.Object("post_processor"));
  if (post_processor) OCTAVO_RETURN_IF_ERROR(ReadPostProcessor(*post_processor, spec));
  if (spec->model == TokenizerModel::kPieces) return ReadHfPiecesPipeline(tokenizer, spec);
  OCTAVO_ASSIGN_OR_RETURN(const auto normalizer, tokenizer.Object("normalizer"));
  if (normalizer) OCTAVO_RETURN_IF_ERROR(ReadNormalizer(*normalizer, spec));

  PreTokenizerReader reader(spec);
  OCTAVO_ASSIGN_OR_RETURN(const auto pre_tokenizer, tokenizer.Object("pre_tokenizer"));
  if (pre_tokenizer) OCTAVO_RETURN_IF_ERROR(reader.Read(*pre_tokenizer));
  if (!reader.byte_level()) {
    return tokenizer.Unimplemented("pre_tokenizer", "without ByteLevel", "only byte-level BPE is");
  }

  OCTAVO_ASSIGN_OR_RETURN(const auto decoder, tokenizer.Object("decoder"));
  if (decoder) {
    OCTAVO_ASSIGN_OR_RETURN(const std::string* type, TypeOf(*decoder));
    if (*type != "ByteLevel") {
      return decoder->Unimplemented("type", ShowJson(Json(*type)), "only ByteLevel is");
    }
  }
  return absl::OkStatus();
}

}  // namespace octavo
