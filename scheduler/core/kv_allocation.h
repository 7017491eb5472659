// How a request gets the blocks of its KV cache: paged, or as earlier systems did.
#ifndef OCTAVO_SCHEDULER_CORE_KV_ALLOCATION_H_
#define OCTAVO_SCHEDULER_CORE_KV_ALLOCATION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

namespace octavo {

// The contiguous ones are baselines to measure against: the three allocators of the PagedAttention
// paper (Kwon et al., SOSP'23, section 6.1). A request reserves one run of adjacent blocks when it
// starts, for as many tokens as it is thought to need, and holds all of it until it ends. Nothing
// grows, nothing is shared, and a run that is free in pieces is no run.
enum class KvAllocation {
  kPaged,
  kContiguousMax,     // max_model_len: the length is not known (Orca (Max))
  kContiguousPow2,    // prompt + the next power of two of max_tokens (Orca (Pow2))
  kContiguousOracle,  // prompt + max_tokens: the length is known (Orca (Oracle))
};

// "paged", "contiguous-max", "contiguous-pow2", "contiguous-oracle".
absl::string_view Name(KvAllocation allocation);
std::optional<KvAllocation> ParseKvAllocation(absl::string_view name);
std::vector<KvAllocation> AllKvAllocations();  // in the order above

// Tokens that a contiguous request reserves. Powers of two end at max_model_len, which bounds what
// a request may ever need. REQUIRES: not kPaged; prompt + max_tokens <= max_model_len.
int64_t ReservedTokens(KvAllocation allocation, int64_t prompt_tokens, int64_t max_tokens,
                       int64_t max_model_len);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_KV_ALLOCATION_H_
