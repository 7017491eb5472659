#include "common/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/gguf.h"
#include "common/checkpoint/mapped_file.h"
#include "common/checkpoint/model_files.h"
#include "common/checkpoint/tensor_table.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

class MappedCheckpoint final : public Checkpoint {
 public:
  MappedCheckpoint(std::string path, ModelParts parts)
      : path_(std::move(path)), parts_(std::move(parts)) {
    config_ = parts_.config;
    tokenizer_ = std::move(parts_.tokenizer);
    digest_ = ModelDigest(config_, parts_.tensors);
    for (const auto& [name, tensor] : parts_.tensors) tensor_bytes_ += tensor.bytes;
  }

  absl::StatusOr<TensorRef> Tensor(TensorRole role, int32_t layer) const override {
    return FindTensor(parts_.tensors, parts_.naming, config_, role, layer, path_);
  }

 private:
  std::string path_;
  ModelParts parts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    OCTAVO_ASSIGN_OR_RETURN(ModelParts parts, ReadHfFolder(path));
    return std::make_unique<MappedCheckpoint>(path, std::move(parts));
  }
  OCTAVO_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  if (!absl::StartsWith(file->text(), GgufFile::kMagic)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " is neither a GGUF file (it does not start with the bytes \"GGUF\") "
                     "nor a Hugging Face folder"));
  }
  OCTAVO_ASSIGN_OR_RETURN(ModelParts parts, ReadGgufModel(file->bytes(), path));
  parts.files.push_back(std::move(file));
  return std::make_unique<MappedCheckpoint>(path, std::move(parts));
}

}  // namespace octavo
