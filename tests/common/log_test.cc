#include "common/log.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(Log, SendsWhatIsSevereEnoughToTheSink) {
  static std::vector<std::pair<LogLevel, std::string>> lines;  // the sink stays
  SetLogSink([](LogLevel level, absl::string_view message) {
    lines.emplace_back(level, std::string(message));
  });
  SetLogLevel(LogLevel::kWarning);
  OCTAVO_LOG(kInfo, "not shown");
  OCTAVO_LOG(kWarning, "request=", 7, " shown");
  OCTAVO_LOG(kError, "worse");
  SetLogLevel(LogLevel::kInfo);
  EXPECT_THAT(lines, ElementsAre(Pair(LogLevel::kWarning, "request=7 shown"),
                                 Pair(LogLevel::kError, "worse")));
}

}  // namespace
}  // namespace octavo
