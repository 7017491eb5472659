// OCTAVO_CHECK(condition, parts...): ends the process when a bug, and only a bug, made the
// condition false. On in release builds. Never for input, peers or devices: those get an
// absl::Status.
#ifndef OCTAVO_COMMON_CHECK_H_
#define OCTAVO_COMMON_CHECK_H_

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace octavo::internal {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition,
                                     const std::string& what) {
  std::fprintf(stderr, "%s:%d: check failed: %s %s\n", file, line, condition, what.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace octavo::internal

#define OCTAVO_CHECK(condition, ...)                                                \
  do {                                                                              \
    if (!(condition)) [[unlikely]]                                                  \
      ::octavo::internal::CheckFailed(__FILE__, __LINE__, #condition,               \
                                      absl::StrCat("" __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)

#endif  // OCTAVO_COMMON_CHECK_H_
