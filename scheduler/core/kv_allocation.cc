#include "scheduler/core/kv_allocation.h"

#include <algorithm>
#include <bit>

#include "common/check.h"

namespace octavo {

absl::string_view Name(KvAllocation allocation) {
  switch (allocation) {
    case KvAllocation::kPaged:
      return "paged";
    case KvAllocation::kContiguousMax:
      return "contiguous-max";
    case KvAllocation::kContiguousPow2:
      return "contiguous-pow2";
    case KvAllocation::kContiguousOracle:
      return "contiguous-oracle";
  }
  return "unknown";
}

std::vector<KvAllocation> AllKvAllocations() {
  return {KvAllocation::kPaged, KvAllocation::kContiguousMax, KvAllocation::kContiguousPow2,
          KvAllocation::kContiguousOracle};
}

std::optional<KvAllocation> ParseKvAllocation(absl::string_view name) {
  for (const KvAllocation allocation : AllKvAllocations()) {
    if (Name(allocation) == name) return allocation;
  }
  return std::nullopt;
}

int64_t ReservedTokens(KvAllocation allocation, int64_t prompt_tokens, int64_t max_tokens,
                       int64_t max_model_len) {
  switch (allocation) {
    case KvAllocation::kContiguousMax:
      return max_model_len;
    case KvAllocation::kContiguousPow2: {
      const int64_t rounded =
          static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(max_tokens)));
      return std::min(prompt_tokens + rounded, max_model_len);
    }
    case KvAllocation::kContiguousOracle:
      return prompt_tokens + max_tokens;
    case KvAllocation::kPaged:
      break;
  }
  OCTAVO_CHECK(false, "paged requests reserve nothing");
  return 0;
}

}  // namespace octavo
