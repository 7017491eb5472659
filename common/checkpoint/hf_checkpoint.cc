#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/hf_model.h"
#include "common/checkpoint/model_files.h"
#include "common/checkpoint/safetensors.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

using Files = std::vector<std::unique_ptr<MappedFile>>;

// nullopt when the folder lacks the file.
absl::StatusOr<std::optional<absl::string_view>> OptionalText(const std::string& folder,
                                                              absl::string_view name,
                                                              Files* files) {
  auto file = MappedFile::Open(absl::StrCat(folder, "/", name));
  if (absl::IsNotFound(file.status())) return std::optional<absl::string_view>();
  OCTAVO_RETURN_IF_ERROR(file.status());
  files->push_back(*std::move(file));
  return std::optional(files->back()->text());
}

// "models/tiny/" and ".." have names too.
std::string FolderName(const std::string& folder) {
  std::error_code error;
  const auto path = std::filesystem::absolute(folder, error).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

absl::StatusOr<TensorTable> ReadShard(const std::string& path, ModelParts* parts) {
  OCTAVO_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  parts->files.push_back(std::move(file));
  return ReadSafetensors(parts->files.back()->bytes(), path, &parts->realigned);
}

absl::Status ReadShards(const std::string& folder, absl::string_view index_text,
                        ModelParts* parts) {
  const std::string index_path = absl::StrCat(folder, "/model.safetensors.index.json");
  OCTAVO_ASSIGN_OR_RETURN(const ShardIndex index, ParseShardIndex(index_text, index_path));
  std::map<std::string, std::string> shard_of;
  for (const std::string& shard : index.files) {
    const std::string path = absl::StrCat(folder, "/", shard);
    OCTAVO_ASSIGN_OR_RETURN(TensorTable own, ReadShard(path, parts));
    for (const auto& [name, tensor] : own) {
      const auto [place, inserted] = shard_of.emplace(name, shard);
      if (!inserted) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": tensor \"", absl::CHexEscape(name),
                                                       "\" is in ", place->second, " too"));
      }
    }
    parts->tensors.merge(own);
  }
  for (const auto& [name, shard] : index.tensors) {
    const auto it = shard_of.find(name);
    if (it == shard_of.end() || it->second != shard) {
      return absl::InvalidArgumentError(absl::StrCat(index_path, ": tensor \"",
                                                     absl::CHexEscape(name), "\" should be in ",
                                                     shard, ", which lacks it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelParts> ReadHfFolder(const std::string& folder) {
  ModelParts parts;
  parts.naming = TensorNaming::kHuggingFace;
  Files texts_files;
  HfTexts texts;
  OCTAVO_ASSIGN_OR_RETURN(const auto config_text,
                          OptionalText(folder, "config.json", &texts_files));
  if (!config_text) {
    return absl::NotFoundError(absl::StrCat(
        folder, " has no config.json; a Hugging Face folder or a GGUF file is needed"));
  }
  texts.config = *config_text;
  OCTAVO_ASSIGN_OR_RETURN(texts.tokenizer, OptionalText(folder, "tokenizer.json", &texts_files));
  OCTAVO_ASSIGN_OR_RETURN(texts.tokenizer_config,
                          OptionalText(folder, "tokenizer_config.json", &texts_files));
  OCTAVO_ASSIGN_OR_RETURN(texts.generation_config,
                          OptionalText(folder, "generation_config.json", &texts_files));
  OCTAVO_ASSIGN_OR_RETURN(texts.chat_template,
                          OptionalText(folder, "chat_template.jinja", &texts_files));

  OCTAVO_ASSIGN_OR_RETURN(HfConfig config,
                          ReadHfConfig(texts.config, absl::StrCat(folder, "/config.json")));
  parts.config = std::move(config.model);
  if (parts.config.post_norms) parts.naming = TensorNaming::kGemma;
  parts.config.name = FolderName(folder);
  OCTAVO_ASSIGN_OR_RETURN(parts.tokenizer, ReadHfTokenizer(texts, parts.config.vocab_size, folder));

  OCTAVO_ASSIGN_OR_RETURN(const auto index,
                          OptionalText(folder, "model.safetensors.index.json", &texts_files));
  if (index) {
    OCTAVO_RETURN_IF_ERROR(ReadShards(folder, *index, &parts));
  } else {
    OCTAVO_ASSIGN_OR_RETURN(parts.tensors,
                            ReadShard(absl::StrCat(folder, "/model.safetensors"), &parts));
  }
  // Older writers left tie_word_embeddings out and the tied lm_head with it.
  if (!config.says_tied) {
    parts.config.tied_embeddings = !parts.tensors.contains("lm_head.weight");
  }
  OCTAVO_RETURN_IF_ERROR(CheckTensors(parts.tensors, parts.naming, parts.config, folder));
  return parts;
}

}  // namespace octavo
