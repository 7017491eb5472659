// Identifiers shared by scheduler and workers. Plain integers: they cross the wire and sort.
#ifndef OCTAVO_COMMON_IDS_H_
#define OCTAVO_COMMON_IDS_H_

#include <cstdint>

namespace octavo {

using TokenId = int32_t;      // row of the vocabulary, >= 0
using BlockId = int32_t;      // physical KV block; 0 is padding and never lent (kv.1)
using RequestId = uint64_t;   // engine-wide, increasing in order of arrival
using SequenceId = uint64_t;  // one block table; a request with n choices has n sequences
using StepId = uint64_t;      // consecutive within an epoch, the first is 1 (step.1)
using Epoch = uint32_t;       // increases whenever workers forget everything

inline constexpr BlockId kPaddingBlock = 0;

}  // namespace octavo

#endif  // OCTAVO_COMMON_IDS_H_
