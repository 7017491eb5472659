#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "tools/command.h"
#include "tools/simulate/advice.h"
#include "tools/simulate/simulation_options.h"
#include "tools/simulate/traffic.h"

namespace octavo::tools {
namespace {

constexpr int64_t kDefaultRequests = 4000;

struct AdviseOptions {
  simulate::SimulationOptions simulation;
  std::string traffic;
  bool json = false;
};

// One line of stderr on a terminal; the end on SIGINT.
simulate::AdviceProgress Progress(Signals& signals) {
  const bool tell = isatty(STDERR_FILENO) == 1;
  return [&signals, tell, told = std::string()](const std::string& what) mutable {
    if (signals.Wait(absl::ZeroDuration()) != 0) return false;
    if (tell && what != told) {
      told = what;
      absl::FPrintF(stderr, "\r\x1b[Ksimulating: %s", what);
    }
    return true;
  };
}

absl::StatusOr<simulate::Advice> AdviseFor(const AdviseOptions& options, Signals& signals) {
  simulate::SimulationOptions simulation = options.simulation;
  if (simulation.requests == 0) simulation.requests = kDefaultRequests;
  simulate::Traffic traffic;
  simulate::Trace trace;
  if (options.traffic.empty()) {
    OCTAVO_ASSIGN_OR_RETURN(trace, LoadTrace(simulation));
    traffic = TrafficOf(trace);
    if (traffic.total.total() == 0)
      return absl::InvalidArgumentError(absl::StrCat(trace.name, " has no request with tokens"));
  } else {
    OCTAVO_ASSIGN_OR_RETURN(traffic, simulate::ReadTrafficFile(options.traffic));
    trace = DrawTrace(traffic, simulation.requests, simulation.seed);
  }
  if (simulation.request_rate > 0) {
    traffic.requests_per_second = simulation.request_rate;
    traffic.busiest_requests_per_second = simulation.request_rate;
  }
  const simulate::AdviceProgress progress = Progress(signals);
  absl::StatusOr<simulate::Advice> advice = Advise(traffic, trace, simulation, progress);
  if (isatty(STDERR_FILENO) == 1) absl::FPrintF(stderr, "\r\x1b[K");
  return advice;
}

}  // namespace

CommandBody AddAdviseCommand(CLI::App& app) {
  auto options = std::make_shared<AdviseOptions>();
  app.add_option("--traffic", options->traffic,
                 "Traffic that a scheduler recorded (octavo status --traffic FILE), instead of a "
                 "--trace")
      ->type_name("FILE");
  simulate::AddWorkloadFlags(app, &options->simulation);
  simulate::AddSystemFlags(app, &options->simulation);
  app.add_flag("--json", options->json, "Print one JSON object");
  app.footer(
      "Simulates some thirty runs of --requests requests each (0: 4000 of them). --arrival-scale "
      "and --request-rate say what would come if there were more. The model behind the figures, "
      "and its limits: docs/simulate.md.");
  return [options](Signals& signals) {
    const absl::StatusOr<simulate::Advice> advice = AdviseFor(*options, signals);
    if (!advice.ok()) {
      absl::FPrintF(stderr, "octavo advise: %s\n", advice.status().message());
      return absl::IsCancelled(advice.status())         ? 130
             : absl::IsInvalidArgument(advice.status()) ? 2
                                                        : 1;
    }
    absl::PrintF("%s",
                 options->json ? absl::StrCat(ToJson(*advice).dump(2), "\n") : ToText(*advice));
    return 0;
  };
}

}  // namespace octavo::tools
