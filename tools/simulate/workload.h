// The requests of a run: a trace, repeated and with its arrivals changed, with made-up prompts.
#ifndef OCTAVO_TOOLS_SIMULATE_WORKLOAD_H_
#define OCTAVO_TOOLS_SIMULATE_WORKLOAD_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "scheduler/core/request.h"
#include "tools/simulate/random_stream.h"
#include "tools/simulate/trace.h"

namespace octavo::simulate {

struct WorkloadOptions {
  int64_t requests = 0;      // 0: the trace once; more than it has: it repeats, shifted in time
  double arrival_scale = 1;  // the trace's arrivals, this many times as fast
  double request_rate = 0;   // > 0: Poisson arrivals per second instead; infinity: all at once
  int32_t choices = 1;       // n of every request
  uint64_t seed = 1;         // of token ids and drawn arrivals
  int32_t vocab_size = 0;
};

// Yields requests in order of arrival, one at a time, so that memory does not grow with their
// number. Every request stops by length after exactly the trace's output tokens. Prompts share
// tokens where the trace says so (equal hash ids within one pass) and nowhere else.
class Workload {
 public:
  // `trace` outlives it.
  Workload(const Trace* trace, const WorkloadOptions& options);

  int64_t size() const { return size_; }
  bool done() const { return next_ == size_; }
  // REQUIRES of the following: !done().
  double next_arrival() const { return arrival_; }  // seconds since the start
  const TraceRequest& next_lengths() const { return trace_->requests[index_]; }
  Request Take();  // with id and arrival
  void Skip();

 private:
  void Arrive();
  void FillPrompt(const TraceRequest& lengths, std::vector<TokenId>* prompt) const;

  const Trace* const trace_;
  const WorkloadOptions options_;
  const int64_t size_;
  const double period_;
  RandomStream arrivals_;
  int64_t next_ = 0;  // of all passes
  int64_t pass_ = 0;  // through the trace
  size_t index_ = 0;  // in the trace
  double arrival_ = 0;
};

// The token that the simulated model samples at `position` of a sequence: it matters to the prefix
// index alone, and no two answers are alike.
TokenId SampledTokenAt(SequenceId sequence, int64_t position, int32_t vocab_size);

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_WORKLOAD_H_
