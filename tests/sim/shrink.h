// Shortens the commands of a failing life until nothing more can be left out.
#ifndef OCTAVO_TESTS_SIM_SHRINK_H_
#define OCTAVO_TESTS_SIM_SHRINK_H_

#include <functional>
#include <span>
#include <vector>

#include "tests/sim/sim_command.h"
#include "tests/sim/sim_scenario.h"

namespace octavo {

using CommandsFail = std::function<bool(std::span<const SimCommand>)>;

// REQUIRES: fails(commands). Leaves out ever smaller stretches as long as what remains fails
// (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002, chapter 3), then
// shortens prompts and outputs. Tries at most `max_trials` lists.
std::vector<SimCommand> Shrink(std::vector<SimCommand> commands, const CommandsFail& fails,
                               int max_trials);

// Whether the life breaks a rule or an invariant; in a child process, which may die of it.
bool FailsInAChild(const SimScenario& scenario, std::span<const SimCommand> commands);

}  // namespace octavo

#endif  // OCTAVO_TESTS_SIM_SHRINK_H_
