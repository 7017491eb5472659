#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/gguf.h"
#include "common/checkpoint/gguf_model.h"
#include "common/checkpoint/model_files.h"
#include "common/status_macros.h"

namespace octavo {

absl::StatusOr<ModelParts> ReadGgufModel(std::span<const std::byte> bytes,
                                         const std::string& path) {
  OCTAVO_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Parse(bytes, path));
  OCTAVO_ASSIGN_OR_RETURN(const auto split_count, file.Integer("split.count", 0, 65535));
  if (split_count.value_or(1) > 1) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": metadata \"split.count\" is ", *split_count,
                     "; join the parts into one file (llama-gguf-split --merge)"));
  }
  ModelParts parts;
  parts.naming = TensorNaming::kGguf;
  OCTAVO_ASSIGN_OR_RETURN(parts.config, ReadGgufConfig(file));
  OCTAVO_ASSIGN_OR_RETURN(parts.tokenizer, ReadGgufTokenizer(file, parts.config.vocab_size));
  parts.tensors = std::move(file).TakeTensors();
  OCTAVO_RETURN_IF_ERROR(CheckTensors(parts.tensors, parts.naming, parts.config, path));
  return parts;
}

}  // namespace octavo
