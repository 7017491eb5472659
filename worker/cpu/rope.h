// Rotary position embedding, optional RMSNorm per head, and the write of K and V into the pool: Su
// et al., RoFormer (2021).
#ifndef OCTAVO_WORKER_CPU_ROPE_H_
#define OCTAVO_WORKER_CPU_ROPE_H_

#include "absl/status/status.h"
#include "worker/backend/op_params.h"
#include "worker/cpu/thread_pool.h"

namespace octavo {

// f32 arithmetic without fused operations: x1 * cos - x2 * sin and x2 * cos + x1 * sin, as the
// checkpoints' reference code has it; K and V are rounded to nearest even. Every row and head is
// computed alone. INVALID_ARGUMENT with value and limit for shapes, positions or slots out of
// range; UNIMPLEMENTED for cache dtypes without a layout.
absl::Status RopeAndWriteKv(const RopeAndWriteKvParams& params, ThreadPool& pool);

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_ROPE_H_
