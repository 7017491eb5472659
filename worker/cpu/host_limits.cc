#include "worker/cpu/host_limits.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace octavo {
namespace {

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> ReadInt(const std::string& path) {
  const std::optional<std::string> text = ReadFile(path);
  int64_t value = 0;
  if (!text || !absl::SimpleAtoi(*text, &value)) return std::nullopt;  // "max" is no number
  return value;
}

// Value after `key` in a file of "key value" lines; 0 when absent.
int64_t ReadKey(const std::string& path, absl::string_view key) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    if (fields >> name >> value && name == key) return value;
  }
  return 0;
}

// Folders of this process's cgroup and its ancestors, which all limit it. `controller` names a
// version 1 hierarchy; "" is version 2. Inside a container the path may not exist: then the root
// of the mount is this process's own group.
std::vector<std::string> CgroupFolders(const std::string& root, absl::string_view controller) {
  std::vector<std::string> folders;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<std::string> names = absl::StrSplit(fields[1], ',');
    if (std::find(names.begin(), names.end(), controller) == names.end()) continue;
    const std::string base =
        absl::StrCat(root, "/sys/fs/cgroup", fields[1].empty() ? "" : "/", fields[1]);
    for (std::string path = fields[2]; path.size() > 1; path.resize(path.rfind('/')))
      folders.push_back(base + path);
    folders.push_back(base);
  }
  return folders;
}

void LowerTo(double quota, double& lowest) {
  if (quota > 0 && (lowest == 0 || quota < lowest)) lowest = quota;
}

cpu_set_t AffinityMask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) CPU_SET(0, &mask);
  return mask;
}

}  // namespace

int AllowedCpus() {
  const cpu_set_t mask = AffinityMask();
  return std::max(1, CPU_COUNT(&mask));
}

int DefaultThreads() {
  const cpu_set_t mask = AffinityMask();
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::optional<std::string> siblings = ReadFile(
        absl::StrCat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
    cores.insert(siblings.value_or(absl::StrCat(cpu)));
  }
  const int physical = std::max<int>(1, static_cast<int>(cores.size()));
  const double quota = ReadCpuQuota();
  return quota == 0 ? physical : std::clamp(static_cast<int>(quota), 1, physical);
}

double ReadCpuQuota(const std::string& root) {
  double lowest = 0;
  for (const std::string& folder : CgroupFolders(root, "")) {
    const std::vector<std::string> fields =
        absl::StrSplit(ReadFile(folder + "/cpu.max").value_or(""), absl::ByAnyChar(" \n"));
    double quota = 0, period = 0;
    if (fields.size() >= 2 && absl::SimpleAtod(fields[0], &quota) &&
        absl::SimpleAtod(fields[1], &period) && period > 0)
      LowerTo(quota / period, lowest);
  }
  for (const std::string& folder : CgroupFolders(root, "cpu")) {
    const double quota = static_cast<double>(ReadInt(folder + "/cpu.cfs_quota_us").value_or(-1));
    const double period = static_cast<double>(ReadInt(folder + "/cpu.cfs_period_us").value_or(0));
    if (quota > 0 && period > 0) LowerTo(quota / period, lowest);
  }
  return lowest;
}

absl::StatusOr<HostMemory> ReadHostMemory(const std::string& root) {
  const std::string meminfo = root + "/proc/meminfo";
  HostMemory memory;
  memory.total_bytes = ReadKey(meminfo, "MemTotal:") * 1024;
  memory.available_bytes = ReadKey(meminfo, "MemAvailable:") * 1024;
  if (memory.total_bytes <= 0) return absl::InternalError(absl::StrCat("no MemTotal in ", meminfo));

  const auto apply = [&](const std::string& limit_file, const std::string& usage_file,
                         const std::string& stat_file, absl::string_view reclaimable_key) {
    const std::optional<int64_t> limit = ReadInt(limit_file);
    if (!limit) return;
    const int64_t used = ReadInt(usage_file).value_or(0) - ReadKey(stat_file, reclaimable_key);
    memory.total_bytes = std::min(memory.total_bytes, *limit);
    memory.available_bytes = std::min(memory.available_bytes, *limit - std::max<int64_t>(0, used));
  };
  for (const std::string& folder : CgroupFolders(root, ""))
    apply(folder + "/memory.max", folder + "/memory.current", folder + "/memory.stat",
          "inactive_file");
  for (const std::string& folder : CgroupFolders(root, "memory"))
    apply(folder + "/memory.limit_in_bytes", folder + "/memory.usage_in_bytes",
          folder + "/memory.stat", "total_inactive_file");
  memory.available_bytes = std::max<int64_t>(0, memory.available_bytes);
  return memory;
}

}  // namespace octavo
