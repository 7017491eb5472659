// Models of noise: a published model's shape, weights that nobody trained, and no texts. They cost
// a device what the real ones do, so that benchmarks need no download.
#ifndef OCTAVO_COMMON_CHECKPOINT_DUMMY_CHECKPOINT_H_
#define OCTAVO_COMMON_CHECKPOINT_DUMMY_CHECKPOINT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint.h"
#include "common/model_shape.h"

namespace octavo {

// A model of the Llama family in bf16: matrices are RepeatedNoise, each at addresses of its own,
// norms are ones. The same bits, and so the same digest and the same tokens, in every process; host
// memory does not grow with the model. Its vocabulary has ids and no texts, and nothing ends a
// sequence but its limit. UNIMPLEMENTED, naming it, for a shape that the decoder graph does not
// compute: an MLP without a gate, or learned positions. INVALID_ARGUMENT as Validate(ModelConfig).
absl::StatusOr<std::unique_ptr<Checkpoint>> MakeDummyCheckpoint(const ModelShape& shape);

// What --model and --load-format name. "auto": Checkpoint::Open of a path. "dummy": the model of
// noise of FindModelShape's shape. INVALID_ARGUMENT for other formats.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenModel(const std::string& model,
                                                      const std::string& load_format);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_DUMMY_CHECKPOINT_H_
