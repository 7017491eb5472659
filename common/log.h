// Logging without a library dependency: programs install a sink (spdlog) in main; tests see stderr.
//
//   OCTAVO_LOG(kInfo, "worker ready", " worker=", name, " blocks=", blocks);
//
// Once per lifecycle event, never per token or step. Keys are request=... step=... .
#ifndef OCTAVO_COMMON_LOG_H_
#define OCTAVO_COMMON_LOG_H_

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace octavo {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogSink = std::function<void(LogLevel, absl::string_view)>;

// Replaces the sink of the process. Call once from main, before threads start.
void SetLogSink(LogSink sink);
// Messages below `level` are dropped before they are formatted.
void SetLogLevel(LogLevel level);
bool LogEnabled(LogLevel level);
void Log(LogLevel level, absl::string_view message);

}  // namespace octavo

#define OCTAVO_LOG(level, ...)                                               \
  do {                                                                       \
    if (::octavo::LogEnabled(::octavo::LogLevel::level))                     \
      ::octavo::Log(::octavo::LogLevel::level, ::absl::StrCat(__VA_ARGS__)); \
  } while (false)

#endif  // OCTAVO_COMMON_LOG_H_
