// From the public API to a core request: what is wrong is said by field, with value and limit.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_REQUEST_TRANSLATION_H_
#define OCTAVO_SCHEDULER_TRANSPORT_REQUEST_TRANSLATION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "octavo/v1/generation.pb.h"
#include "scheduler/core/request.h"
#include "scheduler/transport/answer_writer.h"
#include "scheduler/transport/served_model.h"

namespace octavo {

inline constexpr size_t kMaxRequestIdBytes = 256;
inline constexpr size_t kMaxCacheSaltBytes = 256;
inline constexpr int32_t kDefaultMaxTokens = 256;

// INVALID_ARGUMENT with a BadRequest, or NOT_FOUND for another model's name. Tokenises, so call it
// on a thread that may be busy for a while. Id and arrival stay unset. `random_seed` is used when
// the request has no seed.
absl::StatusOr<Request> TranslateRequest(const v1::GenerateRequest& request,
                                         const ServedModel& model, uint64_t random_seed);

// What its client gets. REQUIRES: TranslateRequest accepts it.
AnswerShape ShapeOf(const v1::GenerateRequest& request);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_REQUEST_TRANSLATION_H_
