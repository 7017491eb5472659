// safetensors: 8 bytes of header length, a JSON header, the tensors' bytes. Source: the format
// section of the safetensors project's README.
#ifndef OCTAVO_COMMON_CHECKPOINT_SAFETENSORS_H_
#define OCTAVO_COMMON_CHECKPOINT_SAFETENSORS_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/tensor_table.h"

namespace octavo {

// Copies of tensors that lie at an address their element type does not allow: the format does not
// align them, although most writers do.
using RealignedTensors = std::vector<std::unique_ptr<std::byte[]>>;

// The file's tensors (F32, F16, BF16); they point into `bytes`, or into what is appended to
// `realigned`. INVALID_ARGUMENT, DATA_LOSS (cut short), UNIMPLEMENTED (another element type).
// `path` is for messages.
absl::StatusOr<TensorTable> ReadSafetensors(std::span<const std::byte> bytes,
                                            absl::string_view path, RealignedTensors* realigned);

// model.safetensors.index.json: the shards, sorted and without repetition, and in which of them
// each tensor is. Shard names are plain file names: nothing outside the folder can be named.
struct ShardIndex {
  std::vector<std::string> files;
  std::vector<std::pair<std::string, std::string>> tensors;  // tensor, file
};
absl::StatusOr<ShardIndex> ParseShardIndex(absl::string_view text, absl::string_view path);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_SAFETENSORS_H_
