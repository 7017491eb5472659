#include "tools/simulate/workload.h"

#include <algorithm>
#include <cmath>

namespace octavo::simulate {
namespace {

// Maps 32 random bits to [0, vocab_size) without a division.
TokenId ToToken(uint32_t bits, int32_t vocab_size) {
  return static_cast<TokenId>((uint64_t{bits} * static_cast<uint32_t>(vocab_size)) >> 32);
}

// `count` tokens that depend on `stream` and their position only.
void AppendTokens(uint64_t stream, int32_t count, int32_t vocab_size,
                  std::vector<TokenId>* tokens) {
  for (int32_t i = 0; i < count; i += 2) {
    const uint64_t bits = Scatter(stream + static_cast<uint64_t>(i));
    tokens->push_back(ToToken(static_cast<uint32_t>(bits), vocab_size));
    if (i + 1 < count) tokens->push_back(ToToken(static_cast<uint32_t>(bits >> 32), vocab_size));
  }
}

}  // namespace

Workload::Workload(const Trace* trace, const WorkloadOptions& options)
    : trace_(trace),
      options_(options),
      size_(options.requests > 0 ? options.requests : static_cast<int64_t>(trace->requests.size())),
      period_(trace->Period()),
      arrivals_(options.seed) {
  Arrive();
}

void Workload::Arrive() {
  if (done()) return;
  if (options_.request_rate > 0) {
    arrival_ = std::isinf(options_.request_rate)
                   ? 0
                   : arrival_ + arrivals_.Exponential(1 / options_.request_rate);
  } else if (trace_->has_arrivals) {
    const double begin = static_cast<double>(pass_) * period_;
    arrival_ = (begin + trace_->requests[index_].arrival_seconds) / options_.arrival_scale;
  }
}

void Workload::Skip() {
  ++next_;
  if (++index_ == trace_->requests.size()) {
    index_ = 0;
    ++pass_;
  }
  Arrive();
}

Request Workload::Take() {
  const TraceRequest& lengths = next_lengths();
  Request request;
  request.id = static_cast<RequestId>(next_) + 1;
  request.max_tokens = lengths.output_tokens;
  request.n = options_.choices;
  request.ignore_eos = true;
  request.sampling.seed = request.id;
  request.arrival = absl::UnixEpoch() + absl::Seconds(arrival_);
  FillPrompt(lengths, &request.prompt);
  Skip();
  return request;
}

void Workload::FillPrompt(const TraceRequest& lengths, std::vector<TokenId>* prompt) const {
  prompt->reserve(static_cast<size_t>(lengths.prompt_tokens));
  const uint64_t seed = Scatter(options_.seed);
  if (lengths.num_hash_ids == 0) {
    AppendTokens(Scatter(seed ^ static_cast<uint64_t>(next_)), lengths.prompt_tokens,
                 options_.vocab_size, prompt);
    return;
  }
  const uint64_t pass = Scatter(seed ^ Scatter(~static_cast<uint64_t>(pass_)));
  int32_t left = lengths.prompt_tokens;
  for (const uint32_t id : trace_->HashIds(lengths)) {
    const int32_t count = std::min(left, kTokensPerHashId);
    AppendTokens(Scatter(pass ^ id), count, options_.vocab_size, prompt);
    left -= count;
  }
}

TokenId SampledTokenAt(SequenceId sequence, int64_t position, int32_t vocab_size) {
  return ToToken(
      static_cast<uint32_t>(Scatter(Scatter(sequence) ^ static_cast<uint64_t>(position))),
      vocab_size);
}

}  // namespace octavo::simulate
