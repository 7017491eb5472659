#include "scheduler/core/admission.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/kv_groups.h"
#include "common/sampling_params.h"
#include "common/status_macros.h"
#include "scheduler/core/beam_group.h"

namespace octavo {
namespace {

absl::Status CheckBeams(const SchedulerConfig& config, const Request& request) {
  OCTAVO_RETURN_IF_ERROR(Validate(*request.beam));
  const int32_t width = request.beam->width;
  if (request.n > width) {
    return absl::InvalidArgumentError(absl::StrCat("n is ", request.n,
                                                   "; of a beam search of width ", width,
                                                   " it must be in [1, ", width, "]"));
  }
  if (width > MaxRunning(config)) {
    return absl::InvalidArgumentError(absl::StrCat("beam width is ", width, "; it must be in [1, ",
                                                   MaxRunning(config),
                                                   "], the sequences of one step"));
  }
  if (config.kv_allocation != KvAllocation::kPaged) {
    return absl::InvalidArgumentError(absl::StrCat("beam search shares blocks; with kv_allocation ",
                                                   Name(config.kv_allocation), " nothing does"));
  }
  if (Windowed(config)) {
    return absl::InvalidArgumentError(
        absl::StrCat("beam search needs layers that see the whole context; some of this model's "
                     "have a window of ",
                     config.group_windows.back(), " tokens"));
  }
  if (request.prompt_logprobs >= 0) {
    return absl::InvalidArgumentError(absl::StrCat("prompt_logprobs is ", request.prompt_logprobs,
                                                   "; with a beam search there are none"));
  }
  if (width > config.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat("beam width is ", width, "; the vocabulary has ",
                                                   config.vocab_size, " tokens"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRequest(const SchedulerConfig& config, const Request& request) {
  if (request.prompt.empty()) {
    return absl::InvalidArgumentError("the prompt has 0 tokens; it needs at least 1");
  }
  if (request.max_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens is ", request.max_tokens, "; it must be at least 1"));
  }
  if (request.beam.has_value()) OCTAVO_RETURN_IF_ERROR(CheckBeams(config, request));
  if (request.n < 1 || request.n > MaxRunning(config)) {
    return absl::InvalidArgumentError(absl::StrCat("n is ", request.n, "; it must be in [1, ",
                                                   MaxRunning(config),
                                                   "], the sequences of one step"));
  }
  if (config.kv_allocation != KvAllocation::kPaged && request.n > 1) {
    return absl::InvalidArgumentError(absl::StrCat("n is ", request.n, "; with kv_allocation ",
                                                   Name(config.kv_allocation),
                                                   " it must be 1, since choices share blocks"));
  }
  if (request.prompt_logprobs < -1 || request.prompt_logprobs > kMaxTopLogprobs) {
    return absl::InvalidArgumentError(absl::StrCat("prompt_logprobs is ", request.prompt_logprobs,
                                                   "; it must be in [0, ", kMaxTopLogprobs, "]"));
  }
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t length = prompt + request.max_tokens;
  if (length > config.max_model_len) {
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has ", prompt, " tokens and max_tokens is ", request.max_tokens,
                     ": together ", length, "; max_model_len is ", config.max_model_len));
  }
  const int32_t sequences = request.num_sequences();
  const int64_t blocks = MostBlocks(config, prompt, request.max_tokens, sequences);
  if (blocks > config.num_blocks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the prompt has ", prompt, " tokens, max_tokens is ", request.max_tokens,
        request.beam ? " and beam width is " : " and n is ", sequences, ": they need ", blocks,
        " KV blocks of ", config.block_size, " tokens; the pool has ", config.num_blocks));
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

int64_t MostBlocks(const SchedulerConfig& config, int64_t prompt_tokens, int64_t max_tokens,
                   int64_t choices) {
  const int64_t most = prompt_tokens + max_tokens - 1;
  const int64_t each = (most + config.block_size - 1) / config.block_size;
  const int64_t shared = prompt_tokens / config.block_size;
  // With one token each nobody writes after the prompt.
  const int64_t writers = max_tokens == 1 ? 1 : choices;
  const int64_t all = max_tokens == 1 ? each : shared + choices * (each - shared);
  int64_t blocks = 0;
  for (const int32_t window : config.group_windows) {
    blocks += std::min(all, writers * BlocksKept(each, window, config.block_size));
  }
  return blocks;
}

bool Windowed(const SchedulerConfig& config) { return config.group_windows.back() > 0; }

int64_t NeededTokens(const SchedulerConfig& config, const SequenceState& choice) {
  const RequestState& request = *choice.request;
  return Immune(config, request) && !SetsAside(config, request) ? request.max_cached_tokens()
                                                                : choice.num_known();
}

bool SetsAside(const SchedulerConfig& config, const RequestState& request) {
  return Immune(config, request) && (!request.single() || Windowed(config));
}

int64_t SharedBlocks(const SchedulerConfig& config, const SequenceState& choice) {
  const RequestState& request = *choice.request;
  if (request.beams != nullptr) return request.beams->slot(choice).shared_blocks;
  const bool first = std::none_of(request.choices.data(), &choice,
                                  [](const SequenceState& before) { return before.active; });
  return first ? 0 : request.prompt_tokens / config.block_size;
}

int64_t ReservedTokens(const SchedulerConfig& config, const RequestState& request) {
  return ReservedTokens(config.kv_allocation, request.prompt_tokens, request.request.max_tokens,
                        config.max_model_len);
}

int64_t SpareBlocks(const SchedulerConfig& config, const RequestState& request) {
  const int64_t most =
      MostBlocks(config, request.prompt_tokens, request.request.max_tokens, request.width());
  int64_t held = 0;
  for (const SequenceState& choice : request.choices) {
    if (!choice.active) continue;
    held += (choice.num_known() + config.block_size - 1) / config.block_size -
            SharedBlocks(config, choice);
  }
  const int64_t keeping = std::count(config.group_windows.begin(), config.group_windows.end(), 0);
  return std::max<int64_t>(0, most - held * keeping);
}

int32_t FindableTokens(const SchedulerConfig& config, const RequestState& request) {
  return request.beams != nullptr && Immune(config, request)
             ? request.prompt_tokens / config.block_size * config.block_size
             : std::numeric_limits<int32_t>::max();
}

int64_t AdmissionReserve(const SchedulerConfig& config, int64_t next_step_blocks) {
  if (config.kv_allocation != KvAllocation::kPaged) return 0;
  const double watermark = std::ceil(config.kv_watermark * static_cast<double>(config.num_blocks));
  return std::max(static_cast<int64_t>(watermark), next_step_blocks);
}

}  // namespace octavo
