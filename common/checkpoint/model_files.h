// The two readers behind Checkpoint::Open.
#ifndef OCTAVO_COMMON_CHECKPOINT_MODEL_FILES_H_
#define OCTAVO_COMMON_CHECKPOINT_MODEL_FILES_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/mapped_file.h"
#include "common/checkpoint/model_config.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/tensor_table.h"
#include "common/checkpoint/tokenizer_spec.h"

namespace octavo {

// A model as read and checked.
struct ModelParts {
  ModelConfig config;
  TokenizerSpec tokenizer;
  TensorNaming naming = TensorNaming::kGguf;
  TensorTable tensors;
  // What the tensors point into.
  std::vector<std::unique_ptr<MappedFile>> files;
  RealignedTensors realigned;
};

// `bytes` starts at a page boundary and outlives the parts, whose `files` stay empty; `path` is for
// messages.
absl::StatusOr<ModelParts> ReadGgufModel(std::span<const std::byte> bytes, const std::string& path);

// NOT_FOUND when config.json or the weights are missing.
absl::StatusOr<ModelParts> ReadHfFolder(const std::string& folder);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_MODEL_FILES_H_
