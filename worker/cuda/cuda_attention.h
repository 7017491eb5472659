// Attention of a step on the device: who computes what is decided once per step and window, and
// sent in one copy; the layers only launch.
#ifndef OCTAVO_WORKER_CUDA_CUDA_ATTENTION_H_
#define OCTAVO_WORKER_CUDA_CUDA_ATTENTION_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/backend/buffer.h"
#include "worker/backend/op_params.h"
#include "worker/cuda/kernels/paged_attention.h"
#include "worker/cuda/kernels/paged_kv.h"
#include "worker/cuda/staging.h"
#include "worker/cuda/work_list.h"

namespace octavo::cuda {

// The pool as kernels see the layer that is number `index` inside a block.
PagedKv LayerOf(const KvPoolView& pool, int32_t index);

// Owned and called by the thread that owns the stream.
class CudaAttention {
 public:
  // Of the card: multiprocessors, and bytes of shared memory that each has. `deterministic`: a
  // row's bits do not depend on its batch (WorkListOptions::fixed_split_tokens).
  CudaAttention(int32_t multiprocessors, int32_t shared_bytes, bool deterministic)
      : multiprocessors_(multiprocessors),
        shared_bytes_(shared_bytes),
        deterministic_(deterministic) {}

  // Device bytes that Reserve takes.
  absl::StatusOr<int64_t> WorkspaceBytes(const LargestStep& limits) const;
  // UNIMPLEMENTED for a cache that no kernel reads. Clears what the kernels expect to be zero on
  // `stream`.
  absl::Status Reserve(const LargestStep& limits, cudaStream_t stream);

  // REQUIRES: `batch` is within the limits of Reserve and stays what it is until the next call.
  absl::Status BeginStep(const StepBatch& batch, Staging& staging);
  // FAILED_PRECONDITION for a batch other than BeginStep's.
  absl::Status Run(const PagedAttentionParams& params, cudaStream_t stream) const;

 private:
  // Where the lists of one window lie in lists_; equal from step to step, so that a recorded launch
  // finds them.
  struct Window {
    int32_t window = 0;
    AttentionWorkList list;
    std::vector<int32_t> groups;  // of layers, that have the window
    size_t runs_at = 0;
    size_t shared_at = 0;
    size_t decode_at = 0;
    size_t prefill_at = 0;
  };
  // What Reserve takes for some limits.
  struct Sizes {
    WorkListOptions options;
    int64_t shared_rows = 0;    // of a window
    int64_t decode_items = 0;   // likewise
    int64_t prefill_items = 0;  // likewise
    int64_t partials = 0;
    std::vector<int32_t> windows;  // of the groups, each once
    size_t ListBytes() const;      // of a window
    int64_t PartialElements(const LargestStep& limits) const;
  };
  absl::StatusOr<Sizes> SizesOf(const LargestStep& limits) const;
  // What both kernels take.
  PagedAttentionArgs ArgsOf(const PagedAttentionParams& params) const;

  const int32_t multiprocessors_;
  const int32_t shared_bytes_;
  const bool deterministic_;
  int32_t num_parts_ = 0;
  int32_t group_ = 0;  // query heads of a KV head
  std::vector<Window> windows_;
  HostTables tables_;                  // of a window's groups
  std::vector<std::byte> host_lists_;  // as lists_
  Buffer lists_;
  Buffer partial_out_;      // [partials, num_heads, head_dim]
  Buffer partial_softmax_;  // [partials, num_heads, 2]
  Buffer arrivals_;         // [partials, num_heads]
  const StepBatch* batch_ = nullptr;
};

}  // namespace octavo::cuda

#endif  // OCTAVO_WORKER_CUDA_CUDA_ATTENTION_H_
