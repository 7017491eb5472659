#include "scheduler/engine/stream_table.h"

#include <utility>

#include "common/check.h"

namespace octavo {

void StreamTable::Admit(RequestId id, std::shared_ptr<TokenStream> stream, absl::Time arrival,
                        int32_t choices) {
  Live live;
  live.last_tokens.resize(static_cast<size_t>(choices), absl::InfiniteFuture());
  live.times.arrival = arrival;
  stream->SetTimes(live.times);
  stream->Admit();
  touched_.push_back(stream);
  live.stream = std::move(stream);
  const bool added = live_.emplace(id, std::move(live)).second;
  OCTAVO_CHECK(added, "request=", id);
}

void StreamTable::Refuse(const std::shared_ptr<TokenStream>& stream, absl::Status why) {
  stream->End(std::move(why));
  touched_.push_back(stream);
  ++ended_;
}

int StreamTable::NoteReset(RequestId id) {
  const auto found = live_.find(id);
  return found == live_.end() ? 0 : ++found->second.resets;
}

void StreamTable::Deliver(TokenEvent event, absl::Time now) {
  const auto found = live_.find(event.request);
  OCTAVO_CHECK(found != live_.end(), "event of an unknown request=", event.request);
  Live& live = found->second;
  if (event.first_scheduled != absl::InfiniteFuture() &&
      live.times.first_scheduled == absl::InfiniteFuture()) {
    live.times.first_scheduled = event.first_scheduled;
    latencies_->queue.Observe(absl::ToDoubleSeconds(event.first_scheduled - live.times.arrival));
  }
  if (event.token.has_value()) {
    absl::Time& last = live.last_tokens.at(static_cast<size_t>(event.choice_index));
    if (last != absl::InfiniteFuture()) {
      // Those of a beam search come at once: there is no time between them.
      if (now > last) latencies_->inter_token.Observe(absl::ToDoubleSeconds(now - last));
    } else if (live.times.first_token == absl::InfiniteFuture()) {
      live.times.first_token = now;
      latencies_->first_token.Observe(absl::ToDoubleSeconds(now - live.times.arrival));
    }
    live.times.last_token = last = now;
    live.resets = 0;
  }
  const bool ends = event.request_ended;
  if (ends && *event.finish != FinishReason::kAbort)
    latencies_->end_to_end.Observe(absl::ToDoubleSeconds(now - live.times.arrival));
  live.stream->SetTimes(live.times);
  if (live.failure.ok()) live.stream->Push(std::move(event));
  if (ends) live.stream->End(std::move(live.failure));
  touched_.push_back(live.stream);
  if (ends) {
    live_.erase(found);
    ++ended_;
  }
}

void StreamTable::NotifyTouched() {
  for (std::shared_ptr<TokenStream>& stream : touched_) dispatcher_->Post(std::move(stream));
  touched_.clear();
}

void StreamTable::FailOnAbort(RequestId id, absl::Status why) {
  const auto found = live_.find(id);
  if (found != live_.end()) found->second.failure = std::move(why);
}

void StreamTable::EndAll(const absl::Status& why) {
  for (auto& [id, live] : live_) {
    live.stream->End(why);
    touched_.push_back(live.stream);
  }
  ended_ += live_.size();
  live_.clear();
}

}  // namespace octavo
