#include "tests/emulation/child_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "tests/emulation/emulation.h"

namespace octavo::emulation {

std::string RunInChild(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    const std::string result = body() + "\n";
    const bool written = write(STDERR_FILENO, result.data(), result.size()) >= 0;
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string output;
  char buffer[4096];
  for (ssize_t bytes; (bytes = read(ends[0], buffer, sizeof buffer)) > 0;)
    output.append(buffer, static_cast<size_t>(bytes));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) output += "killed by signal " + std::to_string(WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    output += "exit code " + std::to_string(WEXITSTATUS(status));
  return output;
}

std::vector<Notice> RunPlanted(const char* bug, const std::vector<uint64_t>& seeds,
                               const std::function<std::string()>& body) {
  std::vector<Notice> notices;
  for (const uint64_t seed : seeds) {
    const std::string message = RunInChild([&] {
      GetOptions().seed = seed;
      GetOptions().resident_blocks = 1 + static_cast<int>(seed % 3);
      Plant(bug);
      return body();
    });
    if (message != "\n") notices.push_back({seed, message});
  }
  return notices;
}

}  // namespace octavo::emulation
