// The secret that keys the digests of cached blocks (kv.6).
#ifndef OCTAVO_SCHEDULER_TRANSPORT_PREFIX_CACHE_KEY_H_
#define OCTAVO_SCHEDULER_TRANSPORT_PREFIX_CACHE_KEY_H_

#include <string>

#include "absl/status/statusor.h"

namespace octavo {

inline constexpr char kPrefixCacheKeyVariable[] = "OCTAVO_PREFIX_CACHE_KEY";

// The content of the file without the line end behind it; without a path the environment variable;
// without that random bytes, others in every process. INVALID_ARGUMENT when both are given or the
// key is not 16 to 1024 bytes long; no message holds any of it. Log nothing that this returns.
absl::StatusOr<std::string> PrefixCacheKey(const std::string& path);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_PREFIX_CACHE_KEY_H_
