#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/hf_model.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

constexpr size_t kMaxTokenizerBytes = 64 << 20;
constexpr size_t kMaxConfigBytes = 4 << 20;
constexpr size_t kMaxTemplateBytes = 4 << 20;
constexpr size_t kMaxEosIds = 64;

using IdByText = std::unordered_map<std::string, TokenId>;  // looked up, never iterated

// The token's id; each id is below `vocab_size` and named once.
absl::StatusOr<TokenId> CheckId(const Json& value, const std::string& name, int32_t vocab_size) {
  const std::optional<int64_t> id = ToInt64(value);
  if (id && *id >= 0 && *id < vocab_size) return static_cast<TokenId>(*id);
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", ShowJson(value), "; token ids are 0 to ", vocab_size - 1));
}

absl::Status SetToken(TokenId id, const std::string& text, const std::string& name,
                      TokenizerSpec* spec, IdByText* ids) {
  const auto index = static_cast<size_t>(id);
  if (index >= spec->tokens.size()) spec->tokens.resize(index + 1);
  std::string& slot = spec->tokens[index];
  const bool fresh = ids->try_emplace(text, id).first->second == id;
  if (!fresh || (!slot.empty() && slot != text)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", ShowJson(Json(text)), " has id ", id, ", but ",
                     fresh ? absl::StrCat("that id is ", ShowJson(Json(slot)))
                           : absl::StrCat("it has id ", ids->at(text), " too")));
  }
  slot = text;
  return absl::OkStatus();
}

// What the model section can say beyond a vocabulary and merges, and BPE here has no use for.
absl::Status RefuseUnknownModel(const JsonObject& model) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string* type, model.String("type"));
  if (type != nullptr && *type != "BPE") {
    return model.Unimplemented("type", ShowJson(Json(*type)), "only BPE is");
  }
  for (absl::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    OCTAVO_ASSIGN_OR_RETURN(const std::string* text, model.String(key));
    if (text != nullptr && !text->empty()) {
      return model.Unimplemented(key, ShowJson(Json(*text)), "only none is");
    }
  }
  OCTAVO_ASSIGN_OR_RETURN(const auto dropout, model.Number("dropout"));
  if (dropout.value_or(0) != 0) {
    return model.Unimplemented("dropout", absl::StrCat(*dropout), "only 0 is");
  }
  return absl::OkStatus();
}

// GPT-2's bytes_to_unicode: printable Latin-1 stands for itself, other bytes for 256 and up.
std::string ByteLevelSymbol(int byte) {
  static const std::vector<std::string>* const symbols = [] {
    auto* table = new std::vector<std::string>;
    int next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      const int point = printable ? b : next++;
      if (point < 128) {
        table->push_back(std::string(1, static_cast<char>(point)));
      } else {
        table->push_back(
            {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 63))});
      }
    }
    return table;
  }();
  return (*symbols)[static_cast<size_t>(byte)];
}

// An unknown token stands in for bytes that the vocabulary lacks; without one they vanish, as the
// spec's users expect.
absl::Status RefuseUnknownToken(const JsonObject& model, const IdByText& ids) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string* unknown, model.String("unk_token"));
  if (unknown == nullptr || unknown->empty()) return absl::OkStatus();
  for (int byte = 0; byte < 256; ++byte) {
    if (ids.contains(ByteLevelSymbol(byte))) continue;
    return model.Unimplemented(
        "unk_token",
        absl::StrCat(ShowJson(Json(*unknown)), " and the vocabulary lacks byte ", byte),
        "only vocabularies of all bytes, or no unknown token, are");
  }
  return absl::OkStatus();
}

absl::Status ReadVocabulary(const JsonObject& model, int32_t vocab_size, TokenizerSpec* spec,
                            IdByText* ids) {
  OCTAVO_ASSIGN_OR_RETURN(const auto vocab, model.Object("vocab"));
  if (!vocab) return model.Missing("vocab");
  ids->reserve(vocab->json().size());
  for (const auto& [text, value] : vocab->json().items()) {
    OCTAVO_ASSIGN_OR_RETURN(const TokenId id,
                            CheckId(value, vocab->Name(ShowJson(Json(text))), vocab_size));
    if (text.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(model.Name("vocab"), ": token ", id, " is empty"));
    }
    OCTAVO_RETURN_IF_ERROR(SetToken(id, text, model.Name("vocab"), spec, ids));
  }
  return absl::OkStatus();
}

absl::Status ReadMerges(const JsonObject& model, TokenizerSpec* spec) {
  OCTAVO_ASSIGN_OR_RETURN(const Json* merges, model.Array("merges"));
  if (merges == nullptr) return model.Missing("merges");
  spec->merges.reserve(merges->size());
  for (const Json& merge : *merges) {
    const std::string *left = nullptr, *right = nullptr;
    if (merge.is_array() && merge.size() == 2) {
      left = merge[0].get_ptr<const std::string*>();
      right = merge[1].get_ptr<const std::string*>();
    }
    if (left != nullptr && right != nullptr && !left->empty() && !right->empty()) {
      spec->merges.emplace_back(*left, *right);
      continue;
    }
    const std::string* text = merge.get_ptr<const std::string*>();
    const size_t space = text == nullptr ? std::string::npos : text->find(' ');
    if (space == std::string::npos || space == 0 || space + 1 == text->size() ||
        text->find(' ', space + 1) != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(model.Name("merges"), "[", spec->merges.size(), "] is ", ShowJson(merge),
                       "; two parts, as an array or separated by one space, are expected"));
    }
    spec->merges.emplace_back(text->substr(0, space), text->substr(space + 1));
  }
  return absl::OkStatus();
}

absl::Status ReadAddedToken(const JsonObject& entry, int32_t vocab_size, TokenizerSpec* spec,
                            IdByText* ids) {
  const Json* id_value = entry.Find("id");
  if (id_value == nullptr) return entry.Missing("id");
  OCTAVO_ASSIGN_OR_RETURN(const TokenId id, CheckId(*id_value, entry.Name("id"), vocab_size));
  OCTAVO_ASSIGN_OR_RETURN(const std::string* text, entry.String("content"));
  if (text == nullptr || text->empty()) return entry.Missing("content");
  for (absl::string_view key : {"single_word", "lstrip", "rstrip"}) {
    OCTAVO_ASSIGN_OR_RETURN(const auto set, entry.Bool(key));
    if (set.value_or(false)) return entry.Unimplemented(key, "true", "only false is");
  }
  OCTAVO_ASSIGN_OR_RETURN(const auto special, entry.Bool("special"));
  OCTAVO_RETURN_IF_ERROR(SetToken(id, *text, entry.Name("content"), spec, ids));
  spec->added.push_back({id, *text, special.value_or(false)});
  return absl::OkStatus();
}

absl::Status ReadAddedTokens(const JsonObject& top, absl::string_view path, int32_t vocab_size,
                             TokenizerSpec* spec, IdByText* ids) {
  OCTAVO_ASSIGN_OR_RETURN(const Json* added, top.Array("added_tokens"));
  if (added == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < added->size(); ++i) {
    OCTAVO_ASSIGN_OR_RETURN(
        const JsonObject entry,
        JsonObject::From((*added)[i], path, absl::StrCat("added_tokens[", i, "]")));
    OCTAVO_RETURN_IF_ERROR(ReadAddedToken(entry, vocab_size, spec, ids));
  }
  std::sort(spec->added.begin(), spec->added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  for (size_t i = 1; i < spec->added.size(); ++i) {
    if (spec->added[i].id == spec->added[i - 1].id) {
      return absl::InvalidArgumentError(
          absl::StrCat(top.Name("added_tokens"), " names id ", spec->added[i].id, " twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTokenizerJson(absl::string_view text, const std::string& path, int32_t vocab_size,
                               TokenizerSpec* spec, IdByText* ids) {
  OCTAVO_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path, kMaxTokenizerBytes));
  OCTAVO_ASSIGN_OR_RETURN(const JsonObject top, JsonObject::From(json, path, ""));
  OCTAVO_ASSIGN_OR_RETURN(const auto model, top.Object("model"));
  if (!model) return top.Missing("model");
  OCTAVO_RETURN_IF_ERROR(RefuseUnknownModel(*model));
  OCTAVO_RETURN_IF_ERROR(ReadVocabulary(*model, vocab_size, spec, ids));
  OCTAVO_ASSIGN_OR_RETURN(const auto byte_fallback, model->Bool("byte_fallback"));
  const bool pieces = byte_fallback.value_or(false);
  if (!pieces) OCTAVO_RETURN_IF_ERROR(RefuseUnknownToken(*model, *ids));
  OCTAVO_RETURN_IF_ERROR(ReadMerges(*model, spec));
  OCTAVO_ASSIGN_OR_RETURN(const auto ignore_merges, model->Bool("ignore_merges"));
  spec->ignore_merges = ignore_merges.value_or(false);
  OCTAVO_RETURN_IF_ERROR(ReadAddedTokens(top, path, vocab_size, spec, ids));
  if (pieces) OCTAVO_RETURN_IF_ERROR(ReadHfPieces(*model, *ids, spec));
  return ReadHfPipeline(top, spec);
}

// A token of tokenizer_config.json: its text, or an object with "content".
absl::StatusOr<std::optional<TokenId>> NamedToken(const JsonObject& config, absl::string_view key,
                                                  const IdByText& ids) {
  const Json* value = config.Find(key);
  if (value != nullptr && value->is_object()) {
    const auto content = value->find("content");
    value = content == value->end() ? nullptr : &*content;
  }
  if (value == nullptr || !value->is_string()) return std::optional<TokenId>();
  const auto it = ids.find(value->get_ref<const std::string&>());
  if (it == ids.end()) {
    return absl::InvalidArgumentError(absl::StrCat(config.Name(key), " is ", ShowJson(*value),
                                                   ", which tokenizer.json does not have"));
  }
  return std::optional(it->second);
}

absl::Status ReadChatTemplate(const JsonObject& config, TokenizerSpec* spec) {
  const Json* value = config.Find("chat_template");
  if (value != nullptr && value->is_array()) {  // several, by name
    const Json* chosen = nullptr;
    for (const Json& entry : *value) {
      if (entry.is_object() && entry.contains("name") && entry["name"] == "default" &&
          entry.contains("template")) {
        chosen = &entry["template"];
      }
    }
    value = chosen;
  }
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.Name("chat_template"), " is ", ShowJson(*value),
                     "; a string or a list of named ones is expected"));
  }
  spec->chat_template = value->get<std::string>();
  return absl::OkStatus();
}

absl::Status ReadTokenizerConfig(absl::string_view text, const std::string& path,
                                 const IdByText& ids, TokenizerSpec* spec,
                                 std::optional<TokenId>* eos) {
  OCTAVO_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path, kMaxConfigBytes));
  OCTAVO_ASSIGN_OR_RETURN(const JsonObject config, JsonObject::From(json, path, ""));
  OCTAVO_RETURN_IF_ERROR(ReadChatTemplate(config, spec));
  if (ids.empty()) return absl::OkStatus();  // no tokenizer.json: nothing that names could mean
  OCTAVO_ASSIGN_OR_RETURN(const auto bos, NamedToken(config, "bos_token", ids));
  if (bos && !spec->bos_id) spec->bos_id = bos;
  OCTAVO_ASSIGN_OR_RETURN(*eos, NamedToken(config, "eos_token", ids));
  // Only the Llama classes rebuild the post-processor from this flag.
  OCTAVO_ASSIGN_OR_RETURN(const std::string* name, config.String("tokenizer_class"));
  OCTAVO_ASSIGN_OR_RETURN(const auto add_bos, config.Bool("add_bos_token"));
  if (add_bos && name != nullptr && (*name == "LlamaTokenizer" || *name == "LlamaTokenizerFast")) {
    spec->add_bos = *add_bos && bos.has_value();
  }
  return absl::OkStatus();
}

// eos_token_id is a number or a list; bos_token_id fills in for tokenizer_config.json.
absl::Status ReadSpecialIds(absl::string_view text, const std::string& path, int32_t vocab_size,
                            TokenizerSpec* spec) {
  OCTAVO_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path, kMaxConfigBytes));
  OCTAVO_ASSIGN_OR_RETURN(const JsonObject config, JsonObject::From(json, path, ""));
  const Json* bos = config.Find("bos_token_id");
  if (bos != nullptr && !spec->bos_id) {
    OCTAVO_ASSIGN_OR_RETURN(spec->bos_id, CheckId(*bos, config.Name("bos_token_id"), vocab_size));
  }
  const Json* eos = config.Find("eos_token_id");
  if (eos == nullptr || !spec->eos_ids.empty()) return absl::OkStatus();
  const Json one = eos->is_array() ? Json() : Json::array({*eos});
  const Json& list = eos->is_array() ? *eos : one;
  if (list.size() > kMaxEosIds) {
    return absl::InvalidArgumentError(absl::StrCat(config.Name("eos_token_id"), " has ",
                                                   list.size(), " ids; the limit is ", kMaxEosIds));
  }
  for (const Json& value : list) {
    OCTAVO_ASSIGN_OR_RETURN(const TokenId id,
                            CheckId(value, config.Name("eos_token_id"), vocab_size));
    if (std::find(spec->eos_ids.begin(), spec->eos_ids.end(), id) == spec->eos_ids.end()) {
      spec->eos_ids.push_back(id);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerSpec> ReadHfTokenizer(const HfTexts& texts, int32_t vocab_size,
                                              absl::string_view folder) {
  const auto path = [folder](absl::string_view file) { return absl::StrCat(folder, "/", file); };
  TokenizerSpec spec;
  IdByText ids;
  if (texts.tokenizer) {
    OCTAVO_RETURN_IF_ERROR(
        ReadTokenizerJson(*texts.tokenizer, path("tokenizer.json"), vocab_size, &spec, &ids));
  }
  std::optional<TokenId> named_eos;
  if (texts.tokenizer_config) {
    OCTAVO_RETURN_IF_ERROR(ReadTokenizerConfig(
        *texts.tokenizer_config, path("tokenizer_config.json"), ids, &spec, &named_eos));
  }
  // transformers generates by generation_config.json, and by config.json where there is none.
  if (texts.generation_config) {
    OCTAVO_RETURN_IF_ERROR(ReadSpecialIds(*texts.generation_config, path("generation_config.json"),
                                          vocab_size, &spec));
  }
  OCTAVO_RETURN_IF_ERROR(ReadSpecialIds(texts.config, path("config.json"), vocab_size, &spec));
  if (spec.eos_ids.empty() && named_eos) spec.eos_ids.push_back(*named_eos);
  if (texts.chat_template) spec.chat_template = std::string(*texts.chat_template);
  if (spec.chat_template.size() > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": the chat template has ",
                                                   spec.chat_template.size(),
                                                   " bytes; the limit is ", kMaxTemplateBytes));
  }
  return spec;
}

}  // namespace octavo
