// Runs something that may crash in a child process, and says how it went.
#ifndef OCTAVO_TESTS_EMULATION_CHILD_PROCESS_H_
#define OCTAVO_TESTS_EMULATION_CHILD_PROCESS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace octavo::emulation {

// What `body` returned, after everything it wrote to stderr; "killed by signal n" where it was, and
// "exit code n" where something ended the process.
std::string RunInChild(const std::function<std::string()>& body);

// Whether the bug is noticed: `body` answers what went wrong, "" when nothing did, and runs in a
// child with the bug planted, once for each seed. Seeds that notice, each with a message.
struct Notice {
  uint64_t seed;
  std::string message;
};
std::vector<Notice> RunPlanted(const char* bug, const std::vector<uint64_t>& seeds,
                               const std::function<std::string()>& body);

}  // namespace octavo::emulation

#endif  // OCTAVO_TESTS_EMULATION_CHILD_PROCESS_H_
