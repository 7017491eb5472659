#include "scheduler/core/admission.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/sampling_params.h"
#include "common/status_macros.h"

namespace octavo {

absl::Status CheckRequest(const SchedulerConfig& config, const Request& request) {
  if (request.prompt.empty()) {
    return absl::InvalidArgumentError("the prompt has 0 tokens; it needs at least 1");
  }
  if (request.max_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens is ", request.max_tokens, "; it must be at least 1"));
  }
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t length = prompt + request.max_tokens;
  if (length > config.max_model_len) {
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has ", prompt, " tokens and max_tokens is ", request.max_tokens,
                     ": together ", length, "; max_model_len is ", config.max_model_len));
  }
  const int64_t blocks = (length - 1 + config.block_size - 1) / config.block_size;
  if (blocks > config.num_blocks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the prompt has ", prompt, " tokens and max_tokens is ", request.max_tokens, ": they need ",
        blocks, " KV blocks of ", config.block_size, " tokens; the pool has ", config.num_blocks));
  }
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    if (request.prompt[i] < 0 || request.prompt[i] >= config.vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat("prompt token ", i, " is ", request.prompt[i],
                                                     "; ids are in [0, ", config.vocab_size, ")"));
    }
  }
  return Validate(request.sampling);
}

absl::Status CheckQueue(const SchedulerConfig& config, const Request& request,
                        int64_t waiting_requests, int64_t waiting_tokens) {
  if (waiting_requests >= config.max_queued_requests) {
    return absl::ResourceExhaustedError(absl::StrCat(
        waiting_requests, " requests wait; max_queued_requests is ", config.max_queued_requests));
  }
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (config.max_queued_tokens > 0 && waiting_tokens > 0 &&
      waiting_tokens + prompt > config.max_queued_tokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat(waiting_tokens, " tokens wait and the prompt has ", prompt,
                     "; max_queued_tokens is ", config.max_queued_tokens));
  }
  return absl::OkStatus();
}

int32_t MaxRunning(const SchedulerConfig& config) {
  return std::min(config.max_num_seqs, config.max_num_batched_tokens);
}

bool Immune(const SchedulerConfig& config, const RequestState& request) {
  return request.pool_preemptions >= config.max_preemptions;
}

int64_t NeededTokens(const SchedulerConfig& config, const RequestState& request) {
  return Immune(config, request) ? request.max_cached_tokens() : request.num_known();
}

int64_t AdmissionReserve(const SchedulerConfig& config, int64_t next_step_blocks) {
  const double watermark = std::ceil(config.kv_watermark * static_cast<double>(config.num_blocks));
  return std::max(static_cast<int64_t>(watermark), next_step_blocks);
}

}  // namespace octavo
