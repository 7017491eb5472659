#include "common/program/program.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace octavo {
namespace {

sigset_t EndSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

LogLevel ParseLevel(const std::string& level) {
  if (level == "debug") return LogLevel::kDebug;
  if (level == "warning") return LogLevel::kWarning;
  if (level == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string JsonEscaped(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\')
      absl::StrAppend(&out, "\\", std::string(1, c));
    else if (static_cast<unsigned char>(c) < 0x20)
      absl::StrAppend(&out, "\\u00", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    else
      out.push_back(c);
  }
  return out;
}

}  // namespace

std::string Version() { return OCTAVO_VERSION; }

void AddLogFlags(CLI::App& app, LogFlags* flags) {
  app.add_option("--log-level", flags->level, "Least severe messages to log")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  app.add_option("--log-format", flags->format, "Log lines for people or for machines")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

void AddProgramFlags(CLI::App& app, LogFlags* flags) {
  app.set_version_flag("--version", absl::StrCat("octavo ", Version()),
                       "Print the version and exit");
  AddLogFlags(app, flags);
}

void InstallLogSink(const LogFlags& flags) {
  auto logger =
      std::make_shared<spdlog::logger>("octavo", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  const bool json = flags.format == "json";
  logger->set_pattern(json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":"%v"})"
                           : "%Y-%m-%dT%H:%M:%S.%e %L %v");
  logger->set_level(spdlog::level::trace);
  logger->flush_on(spdlog::level::trace);
  SetLogLevel(ParseLevel(flags.level));
  SetLogSink([logger, json](LogLevel level, absl::string_view message) {
    const std::string text = json ? JsonEscaped(message) : std::string(message);
    logger->log(ToSpdlog(level), spdlog::string_view_t(text.data(), text.size()));
  });
}

CLI::Option* AddByteSizeOption(CLI::App& app, const std::string& name, int64_t* bytes,
                               const std::string& description) {
  return app
      .add_option_function<std::string>(
          name,
          [bytes, name](const std::string& text) {
            const absl::StatusOr<int64_t> parsed = ParseByteSize(text);
            if (!parsed.ok())
              throw CLI::ValidationError(name, std::string(parsed.status().message()));
            *bytes = *parsed;
          },
          description)
      ->type_name("SIZE");
}

Signals::Signals() {
  const sigset_t set = EndSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

int Signals::Wait(absl::Duration timeout) {
  const sigset_t set = EndSignals();
  if (timeout == absl::InfiniteDuration()) {
    int caught = 0;
    while (sigwait(&set, &caught) != 0) {
    }
    return caught;
  }
  const timespec limit = absl::ToTimespec(timeout);
  const int caught = sigtimedwait(&set, nullptr, &limit);
  return caught > 0 ? caught : 0;
}

void Signals::ExitOnNext() {
  std::thread([this] { _exit(128 + Wait()); }).detach();
}

}  // namespace octavo
