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
#include "common/checkpoint/tensor_table.h"
#include "common/checkpoint/tokenizer_spec.h"

namespace octavo {

// A model as read and checked; the table points into bytes that the owner keeps.
struct ModelParts {
  ModelConfig config;
  TokenizerSpec tokenizer;
  TensorNaming naming = TensorNaming::kGguf;
  TensorTable tensors;
};

// `bytes` starts at a page boundary and outlives the parts; `path` is for messages.
absl::StatusOr<ModelParts> ReadGgufModel(std::span<const std::byte> bytes, const std::string& path);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_MODEL_FILES_H_
