// Causal attention over the paged cache: cuts a batch into tiles, spreads them over threads.
#ifndef OCTAVO_WORKER_CPU_ATTENTION_H_
#define OCTAVO_WORKER_CPU_ATTENTION_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/backend/buffer.h"
#include "worker/backend/op_params.h"
#include "worker/cpu/attention_kernel.h"
#include "worker/cpu/isa.h"
#include "worker/cpu/kv_layout.h"
#include "worker/cpu/thread_pool.h"

namespace octavo {

// Owned and called by the thread that owns `pool`.
//
// A tile is some consecutive queries x the query heads of one KV head, which share each pass over
// its K and V. Decode tiles (one query) are split over the threads beforehand, by length, so that
// each thread can fetch its next keys; with prefill chunks in the batch threads take tiles as they
// get free, longest first. Neither changes a bit of a row (attention_kernel.h).
class Attention {
 public:
  // `pool` must outlive this. REQUIRES: this CPU has `isa`.
  Attention(Isa isa, ThreadPool& pool) : isa_(isa), pool_(pool) {}

  // INVALID_ARGUMENT with value and limit when shapes or tables contradict each other.
  absl::Status Run(const PagedAttentionParams& params);

 private:
  void CutTiles(const PagedAttentionParams& params, const KvLayout& layout);
  void AddTiles(const PagedAttentionParams& params, const KvLayout& layout,
                const SequenceRows& sequence);
  void RunPresplit(AttentionKernel kernel);
  void RunDynamic(AttentionKernel kernel);
  absl::Status ReserveScratch(int32_t head_dim);
  float* Scratch(int thread) const { return scratch_.as<float>() + thread * scratch_stride_; }

  const Isa isa_;
  ThreadPool& pool_;
  std::vector<AttentionTile> tiles_;  // of the current call; kept for its capacity
  std::vector<int64_t> costs_;        // of the tiles: groups of positions x (rows + overhead)
  int64_t total_cost_ = 0;
  std::atomic<int64_t> next_tile_{0};
  Buffer scratch_;  // [threads][scratch_stride_]
  int64_t scratch_stride_ = 0;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_ATTENTION_H_
