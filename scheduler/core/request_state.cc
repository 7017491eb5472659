#include "scheduler/core/request_state.h"

#include <algorithm>
#include <utility>

#include "scheduler/core/beam_group.h"

namespace octavo {

RequestState::RequestState(Request r, SequenceId first)
    : choices(static_cast<size_t>(r.num_sequences())),
      prompt_tokens(static_cast<int32_t>(r.prompt.size())),
      rank{r.priority, r.arrival, r.id},
      forked(r.n == 1 || r.beam.has_value()),
      request(std::move(r)) {
  scored = request.prompt_logprobs < 0 ? prompt_tokens : 1;
  for (int32_t i = 0; i < request.num_sequences(); ++i) {
    choices[i].request = this;
    choices[i].id = first + static_cast<SequenceId>(i);
    choices[i].choice_index = i;
    choices[i].end = prompt_tokens + request.max_tokens;
  }
  choices[0].active = true;
  choices[0].tokens = std::move(request.prompt);
  if (request.beam.has_value()) beams = std::make_unique<BeamGroup>(this);
}

RequestState::~RequestState() = default;

SequenceState* RequestState::leader() {
  for (SequenceState& choice : choices) {
    if (choice.active) return &choice;
  }
  return nullptr;
}

bool RequestState::ending() const {
  return std::all_of(choices.begin(), choices.end(),
                     [](const SequenceState& choice) { return !choice.active || choice.ending(); });
}

int32_t RequestState::generated_tokens() const {
  int32_t tokens = 0;
  for (const SequenceState& choice : choices) {
    if (!choice.tokens.empty()) tokens += choice.num_generated();
  }
  return tokens;
}

int32_t RequestState::computed_tokens() const {
  if (beams != nullptr) return beams->ComputedTokens();
  int32_t prompt = 0;
  int32_t beyond = 0;
  for (const SequenceState& choice : choices) {
    if (!choice.active) continue;
    prompt = std::max(prompt, std::min(choice.computed, prompt_tokens));
    beyond += std::max(0, choice.computed - prompt_tokens);
  }
  return prompt + beyond;
}

bool RequestState::IsEos(TokenId token) const {
  return !request.ignore_eos &&
         std::find(request.eos_ids.begin(), request.eos_ids.end(), token) != request.eos_ids.end();
}

void RequestState::FillUsage(const SequenceState& choice, FinishReason reason,
                             TokenEvent* event) const {
  event->finish = reason;
  event->prompt_tokens = prompt_tokens;
  event->cached_tokens = cached_tokens;
  event->generated_tokens = choice.tokens.empty() ? 0 : choice.num_generated();
  event->preemptions = preemptions;
}

void RequestState::Unfork() {
  if (beams != nullptr) return;
  forked = request.n == 1;
  num_active = 1;
  for (size_t i = 1; i < choices.size(); ++i) {
    choices[i].active = false;
    choices[i].tokens.clear();
    choices[i].chain = {};
  }
}

}  // namespace octavo
