// Tells a user at a terminal how far a simulation is.
#ifndef OCTAVO_TOOLS_SIMULATE_PROGRESS_H_
#define OCTAVO_TOOLS_SIMULATE_PROGRESS_H_

#include <string>

#include "common/program/program.h"
#include "tools/simulate/simulation.h"

namespace octavo::simulate {

// Rewrites one line of stderr when that is a terminal; ends the run on SIGINT or SIGTERM.
// `signals` outlives it.
ProgressCallback TerminalProgress(Signals& signals, std::string prefix);

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_PROGRESS_H_
