// Runs every combination of some flags' values.
#ifndef OCTAVO_TOOLS_SIMULATE_SWEEP_H_
#define OCTAVO_TOOLS_SIMULATE_SWEEP_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/simulate/simulation.h"
#include "tools/simulate/simulation_options.h"
#include "tools/simulate/simulation_report.h"

namespace octavo::simulate {

inline constexpr size_t kMostSweepRuns = 400;

// One flag and the values to try: "block-size=8,16,32".
struct SweptFlag {
  std::string name;  // without dashes
  std::vector<std::string> values;
};

struct SweepRun {
  std::vector<std::string> values;  // one for each swept flag
  SimulationOptions options;
};

absl::StatusOr<SweptFlag> ParseSweep(absl::string_view text);
// The cross product, the last flag fastest, each value checked as if it had been given as a flag.
// INVALID_ARGUMENT for an unknown flag or value, and for more than kMostSweepRuns.
absl::StatusOr<std::vector<SweepRun>> ExpandSweep(const SimulationOptions& base,
                                                  const std::vector<SweptFlag>& flags);

struct SweepResult {
  std::vector<std::string> values;
  SimulationSetup setup;
  SimulationReport report;
};

nlohmann::ordered_json ToJson(const std::vector<SweptFlag>& flags,
                              const std::vector<SweepResult>& results);
// One line a run.
std::string ToTable(const std::vector<SweptFlag>& flags, const std::vector<SweepResult>& results);

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_SWEEP_H_
