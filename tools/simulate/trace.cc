#include "tools/simulate/trace.h"

#include <algorithm>

namespace octavo::simulate {

int64_t Trace::LongestRequest() const {
  int64_t longest = 0;
  for (const TraceRequest& request : requests) {
    longest = std::max(longest, int64_t{request.prompt_tokens} + request.output_tokens);
  }
  return longest;
}

}  // namespace octavo::simulate
