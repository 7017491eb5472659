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

void WriteLogprob(TokenId token, float logprob, const std::vector<TokenLogprob>& top,
                  v1::TokenLogprob* to) {
  to->set_token_id(static_cast<uint32_t>(token));
  to->set_logprob(logprob);
  for (const TokenLogprob& other : top) {
    v1::TopLogprob* entry = to->add_top();
    entry->set_token_id(static_cast<uint32_t>(other.token));
    entry->set_logprob(other.logprob);
  }
}

// 0 for what never happened.
double SecondsBetween(absl::Time from, absl::Time to) {
  return to == absl::InfiniteFuture() ? 0 : absl::ToDoubleSeconds(to - from);
}

}  // namespace

AnswerWriter::AnswerWriter(const Tokenizer* tokenizer, std::string request_id, uint64_t seed,
                           const AnswerShape& shape)
    : request_id_(std::move(request_id)),
      seed_(seed),
      logprobs_(shape.logprobs),
      scores_(shape.scores) {
  decoders_.reserve(static_cast<size_t>(shape.choices));
  for (int32_t i = 0; i < shape.choices; ++i)
    decoders_.emplace_back(tokenizer, /*skip_special=*/true);
  if (shape.generated > shape.choices) best_of_.emplace(shape.generated, shape.choices);
}

void AnswerWriter::Write(std::vector<TokenEvent> events, const StreamTimes& times,
                         std::deque<v1::GenerateResponse>* messages) {
  for (const TokenEvent& event : events) WriteScores(event.prompt_logprobs, messages);
  std::erase_if(events, [](const TokenEvent& event) {
    return !event.token.has_value() && !event.finish.has_value();
  });
  if (best_of_.has_value()) events = best_of_->Collect(std::move(events));
  std::vector<v1::GenerateResponse*> open(decoders_.size(), nullptr);  // by choice
  for (v1::GenerateResponse& message : *messages)
    if (message.prompt_logprobs_size() == 0) open.at(message.index()) = &message;
  for (const TokenEvent& event : events) {
    v1::GenerateResponse*& message = open.at(static_cast<size_t>(event.choice_index));
    if (message == nullptr || message->token_ids_size() == kMaxTokensOfAMessage) {
      message = &messages->emplace_back();  // a deque does not move what it holds
      message->set_request_id(request_id_);
      message->set_index(static_cast<uint32_t>(event.choice_index));
    }
    if (event.token.has_value()) WriteToken(event, message);
    if (event.finish.has_value()) WriteEnd(event, times, message);
  }
}

void AnswerWriter::WriteScores(const std::vector<ScoredToken>& scores,
                               std::deque<v1::GenerateResponse>* messages) const {
  v1::GenerateResponse* message = nullptr;
  for (const ScoredToken& scored : scores) {
    if (message == nullptr || message->prompt_logprobs_size() == kMaxTokensOfAMessage) {
      message = &messages->emplace_back();
      message->set_request_id(request_id_);
    }
    WriteLogprob(scored.token, scored.logprob, scored.top, message->add_prompt_logprobs());
  }
}

void AnswerWriter::WriteToken(const TokenEvent& event, v1::GenerateResponse* message) {
  message->add_token_ids(static_cast<uint32_t>(*event.token));
  if (event.finish != FinishReason::kStop)
    message->mutable_text()->append(decoders_[event.choice_index].Push(*event.token));
  if (!logprobs_) return;
  WriteLogprob(*event.token, event.logprob, event.top_logprobs, message->add_logprobs());
}

void AnswerWriter::WriteEnd(const TokenEvent& event, const StreamTimes& times,
                            v1::GenerateResponse* message) {
  message->mutable_text()->append(decoders_[event.choice_index].Finish());
  message->set_finish_reason(ToProto(*event.finish));
  if (scores_ && event.finish != FinishReason::kAbort) message->set_score(event.score);
  v1::Usage* usage = message->mutable_usage();
  usage->set_prompt_tokens(static_cast<uint32_t>(event.prompt_tokens));
  usage->set_cached_tokens(static_cast<uint32_t>(event.cached_tokens));
  usage->set_generated_tokens(static_cast<uint32_t>(event.generated_tokens));
  usage->set_preemptions(static_cast<uint32_t>(event.preemptions));
  usage->set_seed(seed_);
  usage->set_queue_seconds(SecondsBetween(times.arrival, times.first_scheduled));
  usage->set_first_token_seconds(SecondsBetween(times.arrival, times.first_token));
  usage->set_total_seconds(SecondsBetween(times.arrival, times.last_token));
}

}  // namespace octavo
