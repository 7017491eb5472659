#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "tools/command.h"
#include "tools/simulate/simulation.h"
#include "tools/simulate/simulation_options.h"
#include "tools/simulate/simulation_report.h"

namespace octavo::tools {
namespace {

using simulate::SimulationOptions;
using simulate::SimulationReport;
using simulate::SimulationSetup;

struct SimulateOptions {
  SimulationOptions simulation;
  bool json = false;
  std::string csv;
};

// One line on a terminal, and the end on SIGINT.
simulate::ProgressCallback Progress(Signals& signals) {
  const bool tell = isatty(STDERR_FILENO) == 1;
  return [&signals, tell, last = absl::Now()](int64_t ended, int64_t of) mutable {
    if (signals.Wait(absl::ZeroDuration()) != 0) return false;
    if (tell && absl::Now() - last > absl::Milliseconds(200)) {
      last = absl::Now();
      absl::FPrintF(stderr, "\r\x1b[K%d of %d requests", ended, of);
    }
    if (tell && ended == of) absl::FPrintF(stderr, "\r\x1b[K");
    return true;
  };
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return out ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

absl::Status Simulate(const SimulateOptions& options, Signals& signals) {
  OCTAVO_ASSIGN_OR_RETURN(const simulate::Trace trace, LoadTrace(options.simulation));
  OCTAVO_ASSIGN_OR_RETURN(const SimulationSetup setup, MakeSetup(options.simulation, trace));
  const SimulationReport report = simulate::Simulation(setup, trace).Run(Progress(signals));
  absl::PrintF("%s", options.json ? absl::StrCat(ToJson(setup, report).dump(2), "\n")
                                  : ToText(setup, report));
  if (!options.csv.empty()) OCTAVO_RETURN_IF_ERROR(WriteFile(options.csv, ToCsv(report.levels)));
  return report.interrupted ? absl::CancelledError("interrupted") : absl::OkStatus();
}

}  // namespace

CommandBody AddSimulateCommand(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  simulate::AddWorkloadFlags(app, &options->simulation);
  simulate::AddSystemFlags(app, &options->simulation);
  app.add_flag("--json", options->json, "Print one JSON object");
  app.add_option("--csv", options->csv, "Write the run over time, as CSV")->type_name("FILE");
  app.footer("The model behind the figures, and its limits: docs/simulate.md.");
  return [options](Signals& signals) {
    const absl::Status status = Simulate(*options, signals);
    if (status.ok()) return 0;
    absl::FPrintF(stderr, "octavo simulate: %s\n", status.message());
    return absl::IsCancelled(status) ? 130 : absl::IsInvalidArgument(status) ? 2 : 1;
  };
}

}  // namespace octavo::tools
