// Anonymous memory of the process as a Buffer: zero pages that the system gives when touched.
#ifndef OCTAVO_WORKER_CPU_HOST_BUFFER_H_
#define OCTAVO_WORKER_CPU_HOST_BUFFER_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "worker/backend/buffer.h"

namespace octavo {

// Page-aligned; from 2 MiB on aligned to and advised to use huge pages, which is worth 15-20 % of
// the read bandwidth. RESOURCE_EXHAUSTED with the size when the system refuses.
absl::StatusOr<Buffer> AllocateHostBuffer(size_t bytes);

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_HOST_BUFFER_H_
