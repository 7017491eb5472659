#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "tools/command.h"
#include "tools/simulate/block_plot.h"
#include "tools/simulate/progress.h"
#include "tools/simulate/simulation.h"
#include "tools/simulate/simulation_options.h"
#include "tools/simulate/simulation_report.h"
#include "tools/simulate/sweep.h"

namespace octavo::tools {
namespace {

using simulate::SimulationOptions;
using simulate::SimulationReport;
using simulate::SimulationSetup;

struct SimulateOptions {
  SimulationOptions simulation;
  bool json = false;
  std::string csv;
  std::string plot;
  std::vector<std::string> sweeps;
};

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return out ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

absl::Status SimulateOnce(const SimulateOptions& options, Signals& signals) {
  OCTAVO_ASSIGN_OR_RETURN(const simulate::Trace trace, LoadTrace(options.simulation));
  OCTAVO_ASSIGN_OR_RETURN(const SimulationSetup setup, MakeSetup(options.simulation, trace));
  const SimulationReport report =
      simulate::Simulation(setup, trace).Run(simulate::TerminalProgress(signals, ""));
  absl::PrintF("%s", options.json ? absl::StrCat(ToJson(setup, report).dump(2), "\n")
                                  : ToText(setup, report));
  if (!options.csv.empty()) OCTAVO_RETURN_IF_ERROR(WriteFile(options.csv, ToCsv(report.levels)));
  if (!options.plot.empty()) {
    const std::string title =
        absl::StrCat(setup.model.name, " on ", setup.device.name, ", ", report.trace, ": use of ",
                     setup.pool.num_blocks, " blocks of ", setup.geometry.block_size(), " tokens");
    OCTAVO_RETURN_IF_ERROR(WriteFile(
        options.plot,
        PlotBlocks(report.levels, title, setup.pool.num_blocks, setup.geometry.block_size())));
  }
  return report.interrupted ? absl::CancelledError("interrupted") : absl::OkStatus();
}

absl::Status Sweep(const SimulateOptions& options, Signals& signals) {
  if (!options.csv.empty() || !options.plot.empty()) {
    return absl::InvalidArgumentError("--csv and --plot show one run; leave them out of a --sweep");
  }
  std::vector<simulate::SweptFlag> flags;
  for (const std::string& text : options.sweeps) {
    OCTAVO_ASSIGN_OR_RETURN(flags.emplace_back(), simulate::ParseSweep(text));
  }
  OCTAVO_ASSIGN_OR_RETURN(const std::vector<simulate::SweepRun> runs,
                          ExpandSweep(options.simulation, flags));
  std::vector<simulate::SweepResult> results;
  for (const simulate::SweepRun& run : runs) {
    OCTAVO_ASSIGN_OR_RETURN(const simulate::Trace trace, LoadTrace(run.options));
    simulate::SweepResult& result = results.emplace_back();
    result.values = run.values;
    OCTAVO_ASSIGN_OR_RETURN(result.setup, MakeSetup(run.options, trace));
    const std::string which = absl::StrCat("run ", results.size(), " of ", runs.size(), ": ");
    result.report =
        simulate::Simulation(result.setup, trace).Run(simulate::TerminalProgress(signals, which));
    if (result.report.interrupted) return absl::CancelledError("interrupted");
  }
  absl::PrintF("%s", options.json ? absl::StrCat(ToJson(flags, results).dump(2), "\n")
                                  : ToTable(flags, results));
  return absl::OkStatus();
}

absl::Status Simulate(const SimulateOptions& options, Signals& signals) {
  return options.sweeps.empty() ? SimulateOnce(options, signals) : Sweep(options, signals);
}

}  // namespace

CommandBody AddSimulateCommand(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  simulate::AddWorkloadFlags(app, &options->simulation);
  simulate::AddSystemFlags(app, &options->simulation);
  app.add_flag("--json", options->json, "Print one JSON object");
  app.add_option("--csv", options->csv, "Write the run over time, as CSV")->type_name("FILE");
  app.add_option("--plot", options->plot, "Write blocks and requests over time, as SVG")
      ->type_name("FILE");
  app.add_option("--sweep", options->sweeps,
                 "Try several values of a flag above, as block-size=8,16,32,64; given more than "
                 "once, every combination, at most 400; prints a table, or an array with --json")
      ->type_name("FLAG=VALUE,...")
      ->allow_extra_args(false);
  app.footer("The model behind the figures, and its limits: docs/simulate.md.");
  return [options](Signals& signals) {
    const absl::Status status = Simulate(*options, signals);
    if (status.ok()) return 0;
    absl::FPrintF(stderr, "octavo simulate: %s\n", status.message());
    return absl::IsCancelled(status) ? 130 : absl::IsInvalidArgument(status) ? 2 : 1;
  };
}

}  // namespace octavo::tools
