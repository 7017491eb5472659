// The subcommands of `octavo`. Each registers its options on `app`; its body runs when chosen.
//
// Exit statuses: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
#ifndef OCTAVO_TOOLS_COMMAND_H_
#define OCTAVO_TOOLS_COMMAND_H_

#include <functional>

#include "CLI/CLI.hpp"
#include "common/program/program.h"

namespace octavo::tools {

using CommandBody = std::function<int(Signals&)>;

CommandBody AddServeCommand(CLI::App& app);
CommandBody AddGenerateCommand(CLI::App& app);
CommandBody AddBatchCommand(CLI::App& app);
CommandBody AddStatusCommand(CLI::App& app);
CommandBody AddRequestsCommand(CLI::App& app);
CommandBody AddTokenizeCommand(CLI::App& app);
CommandBody AddBenchCommand(CLI::App& app);
CommandBody AddSimulateCommand(CLI::App& app);
CommandBody AddAdviseCommand(CLI::App& app);
CommandBody AddPagingCommand(CLI::App& app);  // of bench
CommandBody AddPerplexityCommand(CLI::App& app);  // of bench

}  // namespace octavo::tools

#endif  // OCTAVO_TOOLS_COMMAND_H_
