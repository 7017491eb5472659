#include "tests/sim/shrink.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "common/check.h"
#include "tests/sim/scheduler_sim.h"

namespace octavo {
namespace {

constexpr unsigned kMaxSeconds = 20;  // of one life

class Shrinker {
 public:
  Shrinker(std::vector<SimCommand> commands, const CommandsFail& fails, int max_trials)
      : commands_(std::move(commands)), fails_(fails), trials_left_(max_trials) {}

  std::vector<SimCommand> Run() {
    size_t before = 0;
    do {
      before = commands_.size();
      for (size_t length = (before + 1) / 2; length >= 1; length /= 2) LeaveOut(length);
    } while (commands_.size() < before && trials_left_ > 0);
    Shorten();
    return std::move(commands_);
  }

 private:
  bool Try(std::vector<SimCommand> commands) {
    if (trials_left_ <= 0) return false;
    --trials_left_;
    if (!fails_(commands)) return false;
    commands_ = std::move(commands);
    return true;
  }

  // Stretches of `length` commands, from the end: what came last depends on what came before.
  void LeaveOut(size_t length) {
    for (size_t end = commands_.size(); end > 0;) {
      const size_t begin = end > length ? end - length : 0;
      std::vector<SimCommand> fewer(commands_.begin(), commands_.begin() + begin);
      fewer.insert(fewer.end(), commands_.begin() + end, commands_.end());
      Try(std::move(fewer));
      end = begin;
    }
  }

  void Shorten() {
    for (size_t i = 0; i < commands_.size(); ++i) {
      if (commands_[i].kind != SimCommand::Kind::kAdd) continue;
      const auto halve = [&](const std::function<bool(Request*)>& change) {
        std::vector<SimCommand> smaller = commands_;
        while (change(&smaller[i].request) && Try(smaller)) continue;
      };
      halve([](Request* r) { return r->n > 1 ? (r->n /= 2, true) : false; });
      halve([](Request* r) { return r->max_tokens > 1 ? (r->max_tokens /= 2, true) : false; });
      halve([](Request* r) {
        return r->prompt.size() > 1 ? (r->prompt.resize(r->prompt.size() / 2), true) : false;
      });
    }
  }

  std::vector<SimCommand> commands_;
  const CommandsFail& fails_;
  int trials_left_;
};

}  // namespace

std::vector<SimCommand> Shrink(std::vector<SimCommand> commands, const CommandsFail& fails,
                               int max_trials) {
  return Shrinker(std::move(commands), fails, max_trials).Run();
}

bool FailsInAChild(const SimScenario& scenario, std::span<const SimCommand> commands) {
  const pid_t child = fork();
  OCTAVO_CHECK(child >= 0, "fork failed");
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    alarm(kMaxSeconds);
    const int quiet = open("/dev/null", O_WRONLY);
    if (quiet >= 0) dup2(quiet, STDERR_FILENO);
    SimOutcome outcome;
    SchedulerSim sim(scenario, /*seed=*/0);
    _exit(sim.Replay(commands, &outcome).ok() ? 0 : 1);
  }
  int status = 0;
  OCTAVO_CHECK(waitpid(child, &status, 0) == child, "child ", child, " is lost");
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

}  // namespace octavo
