// The best choices of a request that generates more of them than it returns.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_BEST_OF_H_
#define OCTAVO_SCHEDULER_TRANSPORT_BEST_OF_H_

#include <cstdint>
#include <vector>

#include "scheduler/core/request.h"

namespace octavo {

// Holds back all events until the last choice has ended: at most those that the request's stream
// may hold. Better is the larger sum of log-probabilities, then the lower index.
class BestOf {
 public:
  // REQUIRES: 1 <= returned <= choices; the events carry log-probabilities.
  BestOf(int32_t choices, int32_t returned);

  // Nothing before the event that ends the request; with it the events of the best choices, one
  // choice after the other, best first and numbered from 0 in this order.
  std::vector<TokenEvent> Collect(std::vector<TokenEvent> events);

 private:
  struct Choice {
    int32_t index = 0;
    double sum = 0;  // of log-probabilities
    std::vector<TokenEvent> events;
  };

  const size_t returned_;
  std::vector<Choice> choices_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_BEST_OF_H_
