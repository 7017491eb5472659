#include "common/log.h"

#include <atomic>
#include <cstdio>
#include <utility>

namespace octavo {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kInfo};

LogSink& Sink() {
  static LogSink* sink = new LogSink([](LogLevel level, absl::string_view message) {
    std::fprintf(stderr, "%c %.*s\n", "DIWE"[static_cast<int>(level)],
                 static_cast<int>(message.size()), message.data());
  });
  return *sink;
}

}  // namespace

void SetLogSink(LogSink sink) { Sink() = std::move(sink); }
void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }
bool LogEnabled(LogLevel level) { return level >= g_level.load(std::memory_order_relaxed); }
void Log(LogLevel level, absl::string_view message) { Sink()(level, message); }

}  // namespace octavo
