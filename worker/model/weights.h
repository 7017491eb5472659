// Moves a checkpoint's tensors into a backend's weight layouts.
#ifndef OCTAVO_WORKER_MODEL_WEIGHTS_H_
#define OCTAVO_WORKER_MODEL_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint.h"
#include "worker/backend/backend.h"
#include "worker/model/model.h"

namespace octavo {

// Called after each layer with the checkpoint bytes read so far; false stops the load.
using LoadObserver = std::function<bool(int64_t done_bytes, int64_t total_bytes)>;

// Loads one rank's share of the model; `split` is of this checkpoint. CANCELLED when `observer`
// asked for it; otherwise what the checkpoint or the backend refused, with the tensor's name.
// REQUIRES: `checkpoint` and `backend` outlive the model; called on the backend's thread.
absl::StatusOr<std::unique_ptr<Model>> LoadModel(const Checkpoint& checkpoint, Backend& backend,
                                                 const RankSplit& split,
                                                 const LoadObserver& observer);
// The whole model.
absl::StatusOr<std::unique_ptr<Model>> LoadModel(const Checkpoint& checkpoint, Backend& backend,
                                                 const LoadObserver& observer);

}  // namespace octavo

#endif  // OCTAVO_WORKER_MODEL_WEIGHTS_H_
