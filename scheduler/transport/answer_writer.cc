#include "scheduler/transport/answer_writer.h"

#include <utility>

namespace octavo {
namespace {

v1::FinishReason ToProto(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kAbort:
      return v1::FINISH_REASON_ABORT;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

// 0 for what never happened.
double SecondsBetween(absl::Time from, absl::Time to) {
  return to == absl::InfiniteFuture() ? 0 : absl::ToDoubleSeconds(to - from);
}

}  // namespace

AnswerWriter::AnswerWriter(const Tokenizer* tokenizer, std::string request_id,
                           const SamplingParams& sampling)
    : decoder_(tokenizer, /*skip_special=*/true),
      request_id_(std::move(request_id)),
      sampling_(sampling) {}

void AnswerWriter::Write(const std::vector<TokenEvent>& events, const StreamTimes& times,
                         v1::GenerateResponse* message) {
  message->Clear();
  message->set_request_id(request_id_);
  for (const TokenEvent& event : events) {
    message->set_index(static_cast<uint32_t>(event.choice_index));
    if (event.token.has_value()) WriteToken(event, message);
    if (event.finish.has_value()) WriteEnd(event, times, message);
  }
}

void AnswerWriter::WriteToken(const TokenEvent& event, v1::GenerateResponse* message) {
  message->add_token_ids(static_cast<uint32_t>(*event.token));
  if (event.finish != FinishReason::kStop)
    message->mutable_text()->append(decoder_.Push(*event.token));
  if (sampling_.num_logprobs < 0) return;
  v1::TokenLogprob* logprob = message->add_logprobs();
  logprob->set_token_id(static_cast<uint32_t>(*event.token));
  logprob->set_logprob(event.logprob);
  for (const TokenLogprob& top : event.top_logprobs) {
    v1::TopLogprob* entry = logprob->add_top();
    entry->set_token_id(static_cast<uint32_t>(top.token));
    entry->set_logprob(top.logprob);
  }
}

void AnswerWriter::WriteEnd(const TokenEvent& event, const StreamTimes& times,
                            v1::GenerateResponse* message) {
  message->mutable_text()->append(decoder_.Finish());
  message->set_finish_reason(ToProto(*event.finish));
  v1::Usage* usage = message->mutable_usage();
  usage->set_prompt_tokens(static_cast<uint32_t>(event.prompt_tokens));
  usage->set_cached_tokens(static_cast<uint32_t>(event.cached_tokens));
  usage->set_generated_tokens(static_cast<uint32_t>(event.generated_tokens));
  usage->set_preemptions(static_cast<uint32_t>(event.preemptions));
  usage->set_seed(sampling_.seed);
  usage->set_queue_seconds(SecondsBetween(times.arrival, times.first_scheduled));
  usage->set_first_token_seconds(SecondsBetween(times.arrival, times.first_token));
  usage->set_total_seconds(SecondsBetween(times.arrival, times.last_token));
}

}  // namespace octavo
