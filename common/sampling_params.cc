#include "common/sampling_params.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace octavo {
namespace {

absl::Status OutOfRange(const char* field, double value, absl::string_view limit) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be ", limit));
}

}  // namespace

absl::Status Validate(const SamplingParams& params, int32_t max_logprobs) {
  if (!std::isfinite(params.temperature) || params.temperature < 0)
    return OutOfRange("temperature", params.temperature, "a finite number >= 0");
  if (params.top_k < 0) return OutOfRange("top_k", params.top_k, ">= 0 (0 turns it off)");
  if (!(params.top_p > 0 && params.top_p <= 1))
    return OutOfRange("top_p", params.top_p, "in (0, 1]");
  if (!(params.min_p >= 0 && params.min_p <= 1))
    return OutOfRange("min_p", params.min_p, "in [0, 1]");
  if (params.num_logprobs < -1 || params.num_logprobs > max_logprobs)
    return OutOfRange("logprobs", params.num_logprobs, absl::StrCat("in [0, ", max_logprobs, "]"));
  return absl::OkStatus();
}

}  // namespace octavo
