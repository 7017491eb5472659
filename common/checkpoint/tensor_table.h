// The tensors of a checkpoint by name, and what the engine expects of them: which roles a model
// has, what each file format calls them, and their shapes.
#ifndef OCTAVO_COMMON_CHECKPOINT_TENSOR_TABLE_H_
#define OCTAVO_COMMON_CHECKPOINT_TENSOR_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/model_config.h"

namespace octavo {

// Ordered, so that everything derived from it is the same in every process.
using TensorTable = std::map<std::string, TensorRef, std::less<>>;

// kGemma: Hugging Face's names for Gemma 2 and 3, whose norms around attention and MLP are called
// otherwise.
enum class TensorNaming { kGguf, kHuggingFace, kGemma };

// "blk.3.attn_q.weight", "model.layers.3.self_attn.q_proj.weight"; `layer` is ignored for roles
// outside layers.
std::string TensorName(TensorNaming naming, TensorRole role, int32_t layer);

// Whether a model of this configuration has the role; biases and q/k norms are optional.
bool HasRole(const ModelConfig& config, TensorRole role);

// [rows, cols] or [cols].
std::vector<int64_t> RoleShape(const ModelConfig& config, TensorRole role);

// NOT_FOUND when the model has no such role or the table no such tensor; INVALID_ARGUMENT when the
// layer is out of range, or the tensor's shape or type contradicts the configuration.
absl::StatusOr<TensorRef> FindTensor(const TensorTable& table, TensorNaming naming,
                                     const ModelConfig& config, TensorRole role, int32_t layer,
                                     absl::string_view path);

// Every role of every layer is there, and nothing else is: a tensor that the graph would not read
// means a model that the engine does not know (UNIMPLEMENTED).
absl::Status CheckTensors(const TensorTable& table, TensorNaming naming, const ModelConfig& config,
                          absl::string_view path);

// Bytes of a tensor, checked: positive dimensions, whole storage blocks per row, no overflow.
// INVALID_ARGUMENT naming path and tensor.
absl::StatusOr<int64_t> CheckedTensorBytes(DType dtype, const std::vector<int64_t>& shape,
                                           absl::string_view path, absl::string_view tensor);

// INVALID_ARGUMENT when two tensors share bytes.
absl::Status CheckNoOverlap(const TensorTable& table, absl::string_view path);

// Hex SHA-256 over configuration, tensor names, types and shapes, and
// up to 8 KiB of each tensor's data.
std::string ModelDigest(const ModelConfig& config, const TensorTable& table);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_TENSOR_TABLE_H_
