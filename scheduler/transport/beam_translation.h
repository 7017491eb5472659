// Beam search in the public API.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_BEAM_TRANSLATION_H_
#define OCTAVO_SCHEDULER_TRANSPORT_BEAM_TRANSLATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "octavo/v1/generation.pb.h"
#include "scheduler/core/request.h"

namespace octavo {

// Fills `to->beam` and `to->n` when the request asks for a beam search. INVALID_ARGUMENT with a
// BadRequest for a field out of range, or one that would sample. `max_width`: the sequences that a
// step has room for.
absl::Status TranslateBeams(const v1::GenerateRequest& request, int32_t max_width, Request* to);

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_BEAM_TRANSLATION_H_
