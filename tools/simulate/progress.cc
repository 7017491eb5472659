#include "tools/simulate/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace octavo::simulate {

ProgressCallback TerminalProgress(Signals& signals, std::string prefix) {
  const bool tell = isatty(STDERR_FILENO) == 1;
  return [&signals, tell, prefix = std::move(prefix), last = absl::Now(), shown = false](
             int64_t ended, int64_t of) mutable {
    if (signals.Wait(absl::ZeroDuration()) != 0) return false;
    if (!tell) return true;
    if (ended == of) {
      if (shown) absl::FPrintF(stderr, "\r\x1b[K");
    } else if (absl::Now() - last > absl::Milliseconds(200)) {
      last = absl::Now();
      shown = true;
      absl::FPrintF(stderr, "\r\x1b[K%s%d of %d requests", prefix, ended, of);
    }
    return true;
  };
}

}  // namespace octavo::simulate
