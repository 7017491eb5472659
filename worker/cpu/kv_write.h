// Writes one head's K or V of one token into its place (kv_layout.h), rounded (kv_rounding.h).
#ifndef OCTAVO_WORKER_CPU_KV_WRITE_H_
#define OCTAVO_WORKER_CPU_KV_WRITE_H_

#include <cstddef>
#include <cstdint>

#include "worker/cpu/kv_layout.h"

namespace octavo {

// `piece` is the layer's and KV head's in the token's block; x: [head_dim].
void WriteKey(const KvLayout& layout, std::byte* piece, int32_t slot, const float* x);
void WriteValue(const KvLayout& layout, std::byte* piece, int32_t slot, const float* x);

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_KV_WRITE_H_
