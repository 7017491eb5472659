#include "worker/cuda/cuda_sampler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sampling_params.h"
#include "common/status_macros.h"
#include "worker/backend/sample_check.h"
#include "worker/cuda/cuda_status.h"
#include "worker/cuda/device_memory.h"
#include "worker/cuda/row_sampling.h"

namespace octavo::cuda {

int64_t CudaSampler::WorkspaceBytes(const LargestStep& limits) const {
  return static_cast<int64_t>(SampledBytes(limits.max_sampled, kMaxStepLogprobs)) +
         int64_t{limits.max_sampled} * int64_t{sizeof(SamplingRowArgs) + sizeof(int32_t)};
}

absl::Status CudaSampler::Reserve(const LargestStep& limits) {
  const size_t bytes = SampledBytes(limits.max_sampled, kMaxStepLogprobs);
  OCTAVO_RETURN_IF_ERROR(
      Grow(row_args_, static_cast<size_t>(limits.max_sampled) * sizeof(SamplingRowArgs)));
  OCTAVO_RETURN_IF_ERROR(Grow(sampled_, bytes));
  OCTAVO_RETURN_IF_ERROR(Grow(tokens_, static_cast<size_t>(limits.max_sampled) * sizeof(int32_t)));
  for (Buffer& host : host_) {
    if (host.bytes() >= bytes) continue;
    OCTAVO_ASSIGN_OR_RETURN(host, AllocatePinned(bytes));
  }
  return absl::OkStatus();
}

absl::Status CudaSampler::Run(const SampleParams& params, Staging& staging, cudaStream_t stream) {
  OCTAVO_RETURN_IF_ERROR(CheckSampleParams(params));
  const auto rows = static_cast<int64_t>(params.rows.size());
  if (rows * sizeof(SamplingRowArgs) > row_args_.bytes())
    return absl::InvalidArgumentError(absl::StrCat("sample: ", rows, " rows; reserved were ",
                                                   row_args_.bytes() / sizeof(SamplingRowArgs)));
  if (runs_.size() == host_.size())
    return absl::FailedPreconditionError(absl::StrCat(
        "sample: ", runs_.size(), " steps are unfinished; the limit is ", host_.size()));
  params.out->clear();
  if (rows == 0) return absl::OkStatus();
  Started& run = runs_.emplace_back();
  run.out = params.out;
  run.place = next_place_;
  next_place_ = (next_place_ + 1) % static_cast<int>(host_.size());
  run.args.reserve(params.rows.size());
  for (const SampleRow& row : params.rows) {
    run.args.push_back(RowArgsOf(row));
    run.max_top = std::max(run.max_top, row.sampling.num_logprobs);
  }
  OCTAVO_RETURN_IF_ERROR(
      staging.Copy(row_args_.data(), run.args.data(), run.args.size() * sizeof(SamplingRowArgs)));
  SamplingArgs args;
  args.logits = params.logits.data;
  args.stride = params.logits.stride;
  args.rows = static_cast<int32_t>(rows);
  args.vocabulary = static_cast<int32_t>(params.logits.cols);
  args.row_args = row_args_.as<SamplingRowArgs>();
  args.max_top = run.max_top;
  args.sampled = sampled_.data();
  args.tokens = tokens_.as<int32_t>();
  OCTAVO_RETURN_IF_ERROR(LaunchSampling(args, stream));
  return ToStatus(cudaMemcpyAsync(host_[static_cast<size_t>(run.place)].data(), sampled_.data(),
                                  SampledBytes(rows, run.max_top), cudaMemcpyDeviceToHost, stream),
                  "cudaMemcpyAsync of sampled tokens");
}

absl::Status CudaSampler::Finish() {
  if (runs_.empty()) return absl::OkStatus();
  const Started run = std::move(runs_.front());
  runs_.pop_front();
  const auto* rows = host_[static_cast<size_t>(run.place)].as<SampledRow>();
  const auto* top = reinterpret_cast<const TopLogit*>(rows + run.args.size());
  for (size_t i = 0; i < run.args.size(); ++i, top += run.max_top) {
    absl::StatusOr<SampleOutput> output = OutputOf(rows[i], top, run.args[i]);
    if (!output.ok())
      return absl::Status(output.status().code(),
                          absl::StrCat("sample: row ", i, ": ", output.status().message()));
    run.out->push_back(*std::move(output));
  }
  return absl::OkStatus();
}

}  // namespace octavo::cuda
