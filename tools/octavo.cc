// `octavo`: serve a model on this machine, or talk to a scheduler.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/heap.h"
#include "common/program/program.h"
#include "tools/command.h"

int main(int argc, char** argv) {
  using octavo::tools::CommandBody;
  octavo::KeepFreedHeap();
  octavo::Signals signals;
  CLI::App app("Serves large language models from a paged KV cache.", "octavo");
  app.set_version_flag("--version", absl::StrCat("octavo ", octavo::Version()),
                       "Print the version and exit");
  app.require_subcommand(1);

  const std::pair<const char*, const char*> names[] = {
      {"serve", "Run a scheduler and a CPU worker in this process"},
      {"generate", "Stream the answer to one prompt"},
      {"batch", "Answer a file of prompts, one JSON object a line"},
      {"status", "Show blocks, queues and step times of a scheduler"},
      {"requests", "List the requests of a scheduler, or say why one waits"},
      {"tokenize", "Turn text from standard input into token ids"},
      {"bench", "Measure latency and throughput of a scheduler under load"},
      {"simulate", "Replay a request trace through the scheduler in simulated time"},
      {"advise", "Say what recorded traffic needs: lengths, blocks, sequences, cards"},
  };
  CommandBody (*const add[])(CLI::App&) = {
      octavo::tools::AddServeCommand,    octavo::tools::AddGenerateCommand,
      octavo::tools::AddBatchCommand,    octavo::tools::AddStatusCommand,
      octavo::tools::AddRequestsCommand, octavo::tools::AddTokenizeCommand,
      octavo::tools::AddBenchCommand,    octavo::tools::AddSimulateCommand,
      octavo::tools::AddAdviseCommand,
  };
  std::vector<std::pair<CLI::App*, CommandBody>> commands;
  for (size_t i = 0; i < std::size(names); ++i) {
    CLI::App* command = app.add_subcommand(names[i].first, names[i].second);
    commands.emplace_back(command, add[i](*command));
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const auto& [command, body] : commands)
    if (command->parsed()) return body(signals);
  return 2;
}
