#include "scheduler/transport/beam_translation.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/error_details.h"
#include "common/status_macros.h"
#include "scheduler/core/beam.h"

namespace octavo {
namespace {

absl::Status CheckNotSampled(const v1::SamplingParams& sampling) {
  const auto refuse = [](const char* field, auto value, const char* neutral) {
    return InvalidField(absl::StrCat("sampling.", field),
                        absl::StrCat("is ", value, "; a beam search does not sample: it must be ",
                                     neutral, " or unset"));
  };
  if (sampling.has_temperature() && sampling.temperature() != 0)
    return refuse("temperature", sampling.temperature(), "0");
  if (sampling.top_k() != 0) return refuse("top_k", sampling.top_k(), "0");
  if (sampling.has_top_p() && sampling.top_p() != 1) return refuse("top_p", sampling.top_p(), "1");
  if (sampling.min_p() != 0) return refuse("min_p", sampling.min_p(), "0");
  if (sampling.best_of() > 1) return refuse("best_of", sampling.best_of(), "1");
  return absl::OkStatus();
}

absl::StatusOr<EarlyStopping> Translate(v1::EarlyStopping early_stopping) {
  switch (early_stopping) {
    case v1::EARLY_STOPPING_FALSE:
      return EarlyStopping::kFalse;
    case v1::EARLY_STOPPING_TRUE:
      return EarlyStopping::kTrue;
    case v1::EARLY_STOPPING_NEVER:
      return EarlyStopping::kNever;
    default:
      return InvalidField("beam_search.early_stopping",
                          absl::StrCat("is ", static_cast<int>(early_stopping),
                                       "; it must be 0 (false), 1 (true) or 2 (never)"));
  }
}

}  // namespace

absl::Status TranslateBeams(const v1::GenerateRequest& request, int32_t max_width, Request* to) {
  if (!request.has_beam_search()) return absl::OkStatus();
  const v1::BeamSearch& from = request.beam_search();
  const v1::SamplingParams& sampling = request.sampling();
  const int32_t most = std::min(kMaxBeamWidth, max_width);
  if (from.width() < 1 || from.width() > static_cast<uint32_t>(most))
    return InvalidField("beam_search.width",
                        absl::StrCat("is ", from.width(), "; it must be in [1, ", most, "]"));
  BeamParams beam;
  beam.width = static_cast<int32_t>(from.width());
  if (from.has_length_penalty()) beam.length_penalty = from.length_penalty();
  if (!(std::abs(beam.length_penalty) <= kMaxLengthPenalty))
    return InvalidField("beam_search.length_penalty",
                        absl::StrCat("is ", beam.length_penalty, "; it must be in [-",
                                     kMaxLengthPenalty, ", ", kMaxLengthPenalty, "]"));
  OCTAVO_ASSIGN_OR_RETURN(beam.early_stopping, Translate(from.early_stopping()));
  OCTAVO_RETURN_IF_ERROR(CheckNotSampled(sampling));
  if (sampling.logprobs() > 0)
    return InvalidField(
        "sampling.logprobs",
        absl::StrCat("is ", sampling.logprobs(), "; with beam_search it must be 0 or unset"));
  if (sampling.has_prompt_logprobs())
    return InvalidField("sampling.prompt_logprobs", absl::StrCat("is ", sampling.prompt_logprobs(),
                                                                 "; with beam_search it must be "
                                                                 "unset"));
  if (sampling.has_n() && (sampling.n() < 1 || sampling.n() > from.width()))
    return InvalidField("sampling.n",
                        absl::StrCat("is ", sampling.n(), "; with beam_search it must be in [1, ",
                                     from.width(), "], the width"));
  to->n = sampling.has_n() ? static_cast<int32_t>(sampling.n()) : beam.width;
  to->beam = beam;
  return absl::OkStatus();
}

}  // namespace octavo
