#include "scheduler/transport/sampling_translation.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/error_details.h"
#include "common/status_macros.h"
#include "scheduler/core/request.h"

namespace octavo {
namespace {

absl::Status CheckUnit(const std::string& field, float value, bool zero_too) {
  if (std::isfinite(value) && value <= 1 && (value > 0 || (zero_too && value == 0)))
    return absl::OkStatus();
  return FieldOutOfRange(field, absl::StrCat(value), zero_too ? "in [0, 1]" : "in (0, 1]");
}

}  // namespace

absl::Status CheckChoices(const v1::SamplingParams& sampling, int32_t max_choices) {
  const uint32_t most = static_cast<uint32_t>(max_choices);
  const uint32_t n = sampling.has_n() ? sampling.n() : 1;
  if (n < 1 || n > most)
    return FieldOutOfRange("sampling.n", absl::StrCat(n), absl::StrCat("in [1, ", most, "]"));
  if (sampling.has_best_of() && (sampling.best_of() < n || sampling.best_of() > most))
    return FieldOutOfRange("sampling.best_of", absl::StrCat(sampling.best_of()),
                           absl::StrCat("in [", n, ", ", most, "], at least n"));
  return absl::OkStatus();
}

absl::StatusOr<SamplingParams> TranslateSampling(const v1::SamplingParams& from,
                                                 uint64_t random_seed) {
  SamplingParams to;
  if (from.has_temperature()) {
    if (!std::isfinite(from.temperature()) || from.temperature() < 0)
      return FieldOutOfRange("sampling.temperature", absl::StrCat(from.temperature()),
                             "a finite number >= 0");
    to.temperature = from.temperature();
  }
  if (from.top_k() > static_cast<uint32_t>(INT32_MAX))
    return FieldOutOfRange("sampling.top_k", absl::StrCat(from.top_k()), "at most 2147483647");
  to.top_k = static_cast<int32_t>(from.top_k());
  if (from.has_top_p()) {
    OCTAVO_RETURN_IF_ERROR(CheckUnit("sampling.top_p", from.top_p(), /*zero_too=*/false));
    to.top_p = from.top_p();
  }
  OCTAVO_RETURN_IF_ERROR(CheckUnit("sampling.min_p", from.min_p(), /*zero_too=*/true));
  to.min_p = from.min_p();
  to.seed = from.has_seed() ? from.seed() : random_seed;
  if (from.has_logprobs()) {
    if (from.logprobs() > static_cast<uint32_t>(kMaxTopLogprobs))
      return FieldOutOfRange("sampling.logprobs", absl::StrCat(from.logprobs()),
                             absl::StrCat("at most ", kMaxTopLogprobs));
    to.num_logprobs = static_cast<int32_t>(from.logprobs());
  }
  return to;
}

}  // namespace octavo
