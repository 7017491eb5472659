#include "worker/cuda/cuda_sampler.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/sampling_params.h"
#include "common/status_macros.h"
#include "worker/backend/sample_check.h"
#include "worker/cuda/cuda_status.h"
#include "worker/cuda/device_memory.h"
#include "worker/cuda/row_sampling.h"

namespace octavo::cuda {

absl::StatusOr<std::unique_ptr<CudaSampler>> CudaSampler::Create() {
  auto sampler = absl::WrapUnique(new CudaSampler());
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cudaEventCreateWithFlags(&sampler->copied_, cudaEventDisableTiming),
               "cudaEventCreateWithFlags"));
  return sampler;
}

CudaSampler::~CudaSampler() {
  if (copied_ != nullptr) cudaEventDestroy(copied_);
}

int64_t CudaSampler::WorkspaceBytes(const LargestStep& limits) const {
  return static_cast<int64_t>(SampledBytes(limits.max_sampled, kMaxStepLogprobs)) +
         int64_t{limits.max_sampled} * int64_t{sizeof(SamplingRowArgs)};
}

absl::Status CudaSampler::Reserve(const LargestStep& limits) {
  const size_t bytes = SampledBytes(limits.max_sampled, kMaxStepLogprobs);
  OCTAVO_RETURN_IF_ERROR(
      Grow(row_args_, static_cast<size_t>(limits.max_sampled) * sizeof(SamplingRowArgs)));
  OCTAVO_RETURN_IF_ERROR(Grow(sampled_, bytes));
  if (host_.bytes() >= bytes) return absl::OkStatus();
  OCTAVO_ASSIGN_OR_RETURN(host_, AllocatePinned(bytes));
  return absl::OkStatus();
}

absl::Status CudaSampler::Run(const SampleParams& params, Staging& staging, cudaStream_t stream) {
  OCTAVO_RETURN_IF_ERROR(CheckSampleParams(params));
  const auto rows = static_cast<int64_t>(params.rows.size());
  if (rows * sizeof(SamplingRowArgs) > row_args_.bytes())
    return absl::InvalidArgumentError(absl::StrCat("sample: ", rows, " rows; reserved were ",
                                                   row_args_.bytes() / sizeof(SamplingRowArgs)));
  params.out->clear();
  if (rows == 0) return absl::OkStatus();
  args_.clear();
  max_top_ = 0;
  for (const SampleRow& row : params.rows) {
    args_.push_back(RowArgsOf(row));
    max_top_ = std::max(max_top_, row.sampling.num_logprobs);
  }
  OCTAVO_RETURN_IF_ERROR(
      staging.Copy(row_args_.data(), args_.data(), args_.size() * sizeof(SamplingRowArgs)));
  SamplingArgs args;
  args.logits = params.logits.data;
  args.stride = params.logits.stride;
  args.rows = static_cast<int32_t>(rows);
  args.vocabulary = static_cast<int32_t>(params.logits.cols);
  args.row_args = row_args_.as<SamplingRowArgs>();
  args.max_top = max_top_;
  args.sampled = sampled_.data();
  OCTAVO_RETURN_IF_ERROR(LaunchSampling(args, stream));
  OCTAVO_RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(host_.data(), sampled_.data(), SampledBytes(rows, max_top_),
                               cudaMemcpyDeviceToHost, stream),
               "cudaMemcpyAsync of sampled tokens"));
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaEventRecord(copied_, stream), "cudaEventRecord"));
  out_ = params.out;
  return absl::OkStatus();
}

absl::Status CudaSampler::Finish() {
  std::vector<SampleOutput>* const out = std::exchange(out_, nullptr);
  if (out == nullptr) return absl::OkStatus();
  OCTAVO_RETURN_IF_ERROR(ToStatus(cudaEventSynchronize(copied_), "cudaEventSynchronize of a step"));
  const auto* rows = host_.as<SampledRow>();
  const auto* top = reinterpret_cast<const TopLogit*>(rows + args_.size());
  for (size_t i = 0; i < args_.size(); ++i, top += max_top_) {
    absl::StatusOr<SampleOutput> output = OutputOf(rows[i], top, args_[i]);
    if (!output.ok())
      return absl::Status(output.status().code(),
                          absl::StrCat("sample: row ", i, ": ", output.status().message()));
    out->push_back(*std::move(output));
  }
  return absl::OkStatus();
}

}  // namespace octavo::cuda
