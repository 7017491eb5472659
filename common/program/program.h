// What every program of Octavo does the same way: its version, its log sink, its signals.
#ifndef OCTAVO_COMMON_PROGRAM_PROGRAM_H_
#define OCTAVO_COMMON_PROGRAM_PROGRAM_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/byte_size.h"

namespace octavo {

std::string Version();  // "0.1.0"

struct LogFlags {
  std::string level = "info";   // debug, info, warning, error
  std::string format = "text";  // text, json
};

// Adds --log-level and --log-format.
void AddLogFlags(CLI::App& app, LogFlags* flags);
// Adds those and --version.
void AddProgramFlags(CLI::App& app, LogFlags* flags);
// Sends common/log.h to stderr through spdlog. Call before threads start.
void InstallLogSink(const LogFlags& flags);

// Adds an option whose value is written like 512MiB; `bytes` keeps its default when absent.
CLI::Option* AddByteSizeOption(CLI::App& app, const std::string& name, int64_t* bytes,
                               const std::string& description);

// Construct in main before any thread: SIGTERM and SIGINT are then delivered only to Wait. SIGPIPE
// is ignored: a lost peer is a Status, not the end of the process.
class Signals {
 public:
  Signals();
  // Waits for SIGTERM or SIGINT, at most `timeout`; 0 when it passed.
  int Wait(absl::Duration timeout = absl::InfiniteDuration());
  // From now on the next signal ends the process at once with exit status 128 + signal: the second
  // SIGTERM of an operator who does not want to wait for the drain.
  void ExitOnNext();
};

}  // namespace octavo

#endif  // OCTAVO_COMMON_PROGRAM_PROGRAM_H_
