// What a simulated run was like.
#ifndef OCTAVO_TOOLS_SIMULATE_SIMULATION_REPORT_H_
#define OCTAVO_TOOLS_SIMULATE_SIMULATION_REPORT_H_

#include <cstdint>
#include <string>

#include "nlohmann/json.hpp"
#include "scheduler/core/scheduler.h"
#include "tools/simulate/distribution.h"
#include "tools/simulate/simulation_options.h"
#include "tools/simulate/time_series.h"

namespace octavo::simulate {

struct SimulationReport {
  std::string trace;
  int64_t requests = 0;
  int64_t requests_finished = 0;
  int64_t requests_refused = 0;
  std::string first_refusal;  // why, with numbers
  int64_t prompt_tokens = 0;  // of finished requests
  int64_t output_tokens = 0;

  double seconds = 0;          // from the first arrival to the last token
  double device_seconds = 0;   // of those, computing
  Distribution ttft_seconds;   // arrival to first token
  Distribution itl_seconds;    // between two tokens of a choice
  Distribution e2e_seconds;    // arrival to last token
  Distribution queue_seconds;  // arrival to first slice
  TimeSeries levels;
  SchedulerStats stats;  // at the end
  bool interrupted = false;

  double requests_per_second() const { return PerSecond(requests_finished); }
  double tokens_per_second() const { return PerSecond(output_tokens); }
  double total_tokens_per_second() const { return PerSecond(prompt_tokens + output_tokens); }
  // Of the slots that tables held, those that had a token, over time.
  double slots_filled() const;
  // Of the blocks that tables would hold without sharing, those that sharing saved, over time.
  double sharing_saved() const;
  double prefix_hit_rate() const;  // of prompt tokens looked up

 private:
  double PerSecond(int64_t count) const {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  }
};

nlohmann::ordered_json ToJson(const SimulationSetup& setup, const SimulationReport& report);
// Lines of plain text.
std::string ToText(const SimulationSetup& setup, const SimulationReport& report);
// One header line and one line a point of time: levels as time averages.
std::string ToCsv(const TimeSeries& levels);

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_SIMULATION_REPORT_H_
