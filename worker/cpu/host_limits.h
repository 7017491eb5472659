// What this process may use of the machine: CPUs and memory after affinity mask and cgroups.
#ifndef OCTAVO_WORKER_CPU_HOST_LIMITS_H_
#define OCTAVO_WORKER_CPU_HOST_LIMITS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace octavo {

// Logical CPUs of the affinity mask, at least 1.
int AllowedCpus();

// Physical cores of the affinity mask, at most the whole CPUs of the cgroup quota: a second
// hyperthread of a core adds nothing to loops that are bound by its load and FMA units.
int DefaultThreads();

struct HostMemory {
  int64_t total_bytes = 0;      // of the machine, or the smallest cgroup limit
  int64_t available_bytes = 0;  // without swapping, under every cgroup limit
};

// `root` stands before /proc and /sys; tests point it at a copy.
absl::StatusOr<HostMemory> ReadHostMemory(const std::string& root = "");

// CPUs' worth of time per period that cgroups grant; 0: unlimited.
double ReadCpuQuota(const std::string& root = "");

}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_HOST_LIMITS_H_
