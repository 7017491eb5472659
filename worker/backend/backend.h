// The device port: what a decoder needs of a device, and nothing of any vendor.
#ifndef OCTAVO_WORKER_BACKEND_BACKEND_H_
#define OCTAVO_WORKER_BACKEND_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/buffer.h"
#include "worker/backend/op_params.h"

namespace octavo {

// Weights in the layout a backend wants; made once at load.
class LinearWeight {
 public:
  virtual ~LinearWeight() = default;
  virtual int64_t in_features() const = 0;
  virtual int64_t out_features() const = 0;  // stacked rows
  virtual int64_t bytes() const = 0;         // read by one pass over the layer
};

class EmbeddingWeight {
 public:
  virtual ~EmbeddingWeight() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t cols() const = 0;
};

struct DeviceMemory {
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;
  bool dedicated = false;  // a card's own memory, not the machine's
};

struct DevicePeak {
  int64_t used_bytes = 0;   // of the device, by everybody
  int64_t graph_bytes = 0;  // of them for recorded steps, of which more may come
};

// Owned and called by one thread. Ops are ordered; they may complete later, until Synchronize.
// Every op checks its limits and answers INVALID_ARGUMENT or UNIMPLEMENTED with value and limit.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string device_name() const = 0;   // "cpu"
  virtual std::string numeric_path() const = 0;  // "cpu/avx512/float32" (det.2)
  // What Reserve has taken counts as free: the next Reserve takes it again.
  virtual absl::StatusOr<DeviceMemory> Memory() const = 0;

  // The most that was in use at any time since WatchPeak, as far as the device and this process's
  // own allocations tell. Of dedicated memory.
  virtual void WatchPeak() {}
  virtual absl::StatusOr<DevicePeak> Peak() const { return DevicePeak{}; }

  // Zeroed lazily by the operating system where possible; RESOURCE_EXHAUSTED with both sizes.
  virtual absl::StatusOr<Buffer> Allocate(size_t bytes) = 0;
  virtual absl::Status CopyToDevice(void* device, const void* host, size_t bytes) = 0;
  virtual absl::Status CopyToHost(void* host, const void* device, size_t bytes) = 0;

  // Swapping, for one more thread that may call these beside all else. Host memory from which and
  // into which copies are fast; touched only as it is used. The copies are complete on return, and
  // the caller sees to it that no op in progress names what they read or write.
  virtual absl::StatusOr<Buffer> AllocateHost(size_t bytes) = 0;
  virtual absl::Status SwapOut(void* host, const void* device, size_t bytes) = 0;
  virtual absl::Status SwapIn(void* device, const void* host, size_t bytes) = 0;

  // Takes the memory that ops of steps within `limits` need beside their params, so that no step
  // allocates; once the weights are packed. WorkspaceBytes says how much that is. INVALID_ARGUMENT
  // or UNIMPLEMENTED when no such step can be computed.
  virtual absl::StatusOr<int64_t> WorkspaceBytes(const LargestStep& /*limits*/) const { return 0; }
  virtual absl::Status Reserve(const LargestStep& /*limits*/) { return absl::OkStatus(); }

  // Around the ops that compute a step's logits of the rows `row_ids` (host): they depend on what
  // the two say and on what the batch's arrays hold, on nothing else. When BeginStep answers true,
  // they have been started already, from a recording, and neither they nor EndStep may be called.
  virtual absl::StatusOr<bool> BeginStep(const StepBatch& /*batch*/,
                                         const std::vector<int32_t>& /*row_ids*/) {
    return false;
  }
  virtual absl::Status EndStep() { return absl::OkStatus(); }

  // Steps in flight. Ops called since the last SubmitStep are one step; FinishStep waits for the
  // oldest that is submitted and not finished, and then what its Sample was given is filled. To a
  // backend that runs ahead the ops of one more step may be given before, and token ids of it may
  // say which row of the step before samples them (SampledByRow); Synchronize finishes both.
  virtual bool runs_ahead() const { return false; }
  virtual absl::Status SubmitStep() { return absl::OkStatus(); }
  // Whether FinishStep would not wait.
  virtual absl::StatusOr<bool> StepDone() { return true; }
  virtual absl::Status FinishStep() { return Synchronize(); }

  // The sources must outlive the weights: a backend may read them in place.
  virtual absl::StatusOr<std::unique_ptr<LinearWeight>> PackLinear(const LinearSource& source) = 0;
  virtual absl::StatusOr<std::unique_ptr<EmbeddingWeight>> PackEmbedding(
      const WeightView& source) = 0;

  virtual absl::Status Embed(const EmbedParams& params) = 0;
  virtual absl::Status Linear(const LinearParams& params) = 0;
  // What the two Linears would give, which is what a backend without a better way does.
  virtual absl::Status FeedForward(const FeedForwardParams& params) {
    const absl::Status status =
        Linear({params.gate_up, params.norm, params.x, nullptr, params.gate, params.gated});
    if (!status.ok()) return status;
    return Linear({params.down, {}, params.gated, nullptr, params.epilogue, params.out});
  }
  virtual absl::Status AddNormed(const AddNormedParams& params) = 0;
  virtual absl::Status Softcap(const SoftcapParams& params) = 0;
  virtual absl::Status RopeAndWriteKv(const RopeAndWriteKvParams& params) = 0;
  virtual absl::Status PagedAttention(const PagedAttentionParams& params) = 0;
  virtual absl::Status CopyBlocks(const CopyBlocksParams& params) = 0;
  virtual absl::Status Sample(const SampleParams& params) = 0;
  virtual absl::Status Synchronize() = 0;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_BACKEND_BACKEND_H_
