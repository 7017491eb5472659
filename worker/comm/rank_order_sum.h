// The one order in which what the ranks computed is added up (det.2).
#ifndef OCTAVO_WORKER_COMM_RANK_ORDER_SUM_H_
#define OCTAVO_WORKER_COMM_RANK_ORDER_SUM_H_

#include <cstdint>
#include <span>

namespace octavo {

// out[i] = parts[0][i] + parts[1][i] + ..., from the left. `out` may be one of the parts.
void SumInRankOrder(std::span<const float* const> parts, int64_t count, float* out);

}  // namespace octavo

#endif  // OCTAVO_WORKER_COMM_RANK_ORDER_SUM_H_
