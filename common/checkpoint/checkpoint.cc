#include "common/checkpoint/checkpoint.h"

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
  MappedCheckpoint(std::string path, ModelParts parts,
                   std::vector<std::unique_ptr<MappedFile>> files)
      : path_(std::move(path)),
        naming_(parts.naming),
        tensors_(std::move(parts.tensors)),
        files_(std::move(files)) {
    config_ = std::move(parts.config);
    tokenizer_ = std::move(parts.tokenizer);
    digest_ = ModelDigest(config_, tensors_);
    for (const auto& [name, tensor] : tensors_) tensor_bytes_ += tensor.bytes;
  }

  absl::StatusOr<TensorRef> Tensor(TensorRole role, int32_t layer) const override {
    return FindTensor(tensors_, naming_, config_, role, layer, path_);
  }

 private:
  std::string path_;
  TensorNaming naming_;
  TensorTable tensors_;
  std::vector<std::unique_ptr<MappedFile>> files_;  // what tensors_ points into
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path) {
  OCTAVO_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  if (!absl::StartsWith(file->text(), GgufFile::kMagic)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a GGUF file: it does not start with the bytes \"GGUF\""));
  }
  OCTAVO_ASSIGN_OR_RETURN(ModelParts parts, ReadGgufModel(file->bytes(), path));
  std::vector<std::unique_ptr<MappedFile>> files;
  files.push_back(std::move(file));
  return std::make_unique<MappedCheckpoint>(path, std::move(parts), std::move(files));
}

}  // namespace octavo
