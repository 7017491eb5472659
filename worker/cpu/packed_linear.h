// A linear layer's weights as the CPU kernels stream them: panels (packed_format.h) in the stored
// precision, made once at load.
#ifndef OCTAVO_WORKER_CPU_PACKED_LINEAR_H_
#define OCTAVO_WORKER_CPU_PACKED_LINEAR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/backend/backend.h"
#include "worker/backend/tensor_view.h"
#include "worker/cpu/packed_format.h"
#include "worker/cpu/thread_pool.h"
#include "worker/cpu/weight_arena.h"

namespace octavo {

// Immutable after Pack. The weight bytes live in the arena, which must outlive it; the source is
// not needed any more.
class PackedLinear : public LinearWeight {
 public:
  // Consecutive stacked rows of one format.
  struct Segment {
    PackFormat format = PackFormat::kF32;
    int64_t first_row = 0;  // among the stacked rows
    int64_t rows = 0;
    int64_t panels = 0;
    const uint8_t* data = nullptr;  // [panels] of panel_bytes
    int64_t panel_bytes = 0;
  };

  // Packs on all threads of `pool`. INVALID_ARGUMENT for parts that do not fit together, no data,
  // or a dtype that is not a weight's; RESOURCE_EXHAUSTED from the arena.
  static absl::StatusOr<std::unique_ptr<PackedLinear>> Pack(const LinearSource& source,
                                                            WeightArena& arena, ThreadPool& pool);

  int64_t in_features() const override { return in_features_; }
  int64_t out_features() const override { return out_features_; }
  int64_t bytes() const override { return bytes_; }

  bool gated() const { return gated_; }
  // Gate and up rows share panels: half 0 of panel p is gate rows [16 p, 16 p + 16), half 1 the up
  // rows of the same numbers. Only when both are stored in one format; otherwise gate and up are
  // segments of their own.
  bool interleaved() const { return interleaved_; }
  int64_t k_blocks() const { return k_blocks_; }
  const std::vector<Segment>& segments() const { return segments_; }
  // [out_features] in stacked order, or empty.
  const std::vector<float>& bias() const { return bias_; }

 private:
  PackedLinear() = default;

  int64_t in_features_ = 0;
  int64_t out_features_ = 0;
  int64_t k_blocks_ = 0;  // padded with zero weights to whole blocks
  int64_t bytes_ = 0;
  bool gated_ = false;
  bool interleaved_ = false;
  std::vector<Segment> segments_;
  std::vector<float> bias_;
};

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_PACKED_LINEAR_H_
