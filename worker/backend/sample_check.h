// What every backend's Sample asks of its parameters before it starts.
#ifndef OCTAVO_WORKER_BACKEND_SAMPLE_CHECK_H_
#define OCTAVO_WORKER_BACKEND_SAMPLE_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/backend/op_params.h"
#include "worker/backend/sampling_math.h"

namespace octavo {

// INVALID_ARGUMENT when rows and logits do not match or a row's parameters are out of range, with
// value and limit.
inline absl::Status CheckSampleParams(const SampleParams& params) {
  const auto rows = static_cast<int64_t>(params.rows.size());
  if (params.out == nullptr) return absl::InvalidArgumentError("sample: out is missing");
  if (rows != params.logits.rows)
    return absl::InvalidArgumentError(
        absl::StrCat("sample: ", rows, " rows to sample; logits have ", params.logits.rows));
  if (rows > 0 && (params.logits.cols <= 0 || params.logits.data == nullptr))
    return absl::InvalidArgumentError(
        absl::StrCat("sample: logits have ", params.logits.cols, " columns"));
  if (params.logits.cols > kMaxSampledVocabulary)
    return absl::InvalidArgumentError(absl::StrCat("sample: logits have ", params.logits.cols,
                                                   " columns; the most is ",
                                                   kMaxSampledVocabulary));
  for (const SampleRow& row : params.rows) {
    OCTAVO_RETURN_IF_ERROR(Validate(row.sampling, kMaxStepLogprobs));
    if (row.target >= params.logits.cols)
      return absl::InvalidArgumentError(absl::StrCat("sample: the target is token ", row.target,
                                                     "; logits have ", params.logits.cols,
                                                     " columns"));
  }
  return absl::OkStatus();
}

// INTERNAL: the model or its weights are broken, and any token would be noise.
inline absl::Status BadLogits(float largest) {
  return absl::InternalError(
      absl::StrCat("logits hold NaN or infinity, or none is finite; the largest is ", largest));
}

}  // namespace octavo

#endif  // OCTAVO_WORKER_BACKEND_SAMPLE_CHECK_H_
