// Soft limits on logits: Gemma 2 (Riviere et al. 2024), section 2.
#ifndef OCTAVO_WORKER_CPU_SOFTCAP_H_
#define OCTAVO_WORKER_CPU_SOFTCAP_H_

#include "absl/status/status.h"
#include "worker/backend/op_params.h"
#include "worker/cpu/thread_pool.h"

namespace octavo {

// x = cap tanh(x / cap), element by element. INVALID_ARGUMENT for a cap that is not positive.
absl::Status Softcap(const SoftcapParams& params, ThreadPool& pool);

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_SOFTCAP_H_
