// How tokens are drawn: the `sampling` of a request of the public API.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_SAMPLING_TRANSLATION_H_
#define OCTAVO_SCHEDULER_TRANSPORT_SAMPLING_TRANSLATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sampling_params.h"
#include "octavo/v1/generation.pb.h"

namespace octavo {

// INVALID_ARGUMENT with a BadRequest unless 1 <= n <= best_of <= max_choices, the sequences that a
// step has room for.
absl::Status CheckChoices(const v1::SamplingParams& sampling, int32_t max_choices);

// INVALID_ARGUMENT with a BadRequest for the first value out of range. `random_seed` is used when
// the request has no seed.
absl::StatusOr<SamplingParams> TranslateSampling(const v1::SamplingParams& from,
                                                 uint64_t random_seed);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_SAMPLING_TRANSLATION_H_
