#include "scheduler/transport/best_of.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace octavo {

BestOf::BestOf(int32_t choices, int32_t returned)
    : returned_(static_cast<size_t>(returned)), choices_(static_cast<size_t>(choices)) {
  for (int32_t index = 0; index < choices; ++index) choices_[index].index = index;
}

std::vector<TokenEvent> BestOf::Collect(std::vector<TokenEvent> events) {
  bool ended = false;
  for (TokenEvent& event : events) {
    ended |= event.request_ended;
    Choice& choice = choices_.at(static_cast<size_t>(event.choice_index));
    if (event.token.has_value()) choice.sum += event.logprob;
    choice.events.push_back(std::move(event));
  }
  std::vector<TokenEvent> best;
  if (!ended) return best;
  std::sort(choices_.begin(), choices_.end(), [](const Choice& a, const Choice& b) {
    return a.sum != b.sum ? a.sum > b.sum : a.index < b.index;
  });
  for (size_t rank = 0; rank < returned_; ++rank) {
    for (TokenEvent& event : choices_[rank].events) {
      event.choice_index = static_cast<int32_t>(rank);
      best.push_back(std::move(event));
    }
  }
  choices_.clear();
  return best;
}

}  // namespace octavo
