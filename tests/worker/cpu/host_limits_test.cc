#include "worker/cpu/host_limits.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace octavo {
namespace {

class HostLimits : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/host_limits_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    Write("/proc/meminfo",
          "MemTotal:       16000000 kB\nMemFree: 1000 kB\nMemAvailable:   8000000 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(HostLimits, ReadsTheMachineWithoutCgroups) {
  const absl::StatusOr<HostMemory> memory = ReadHostMemory(root_);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->total_bytes, 16000000LL * 1024);
  EXPECT_EQ(memory->available_bytes, 8000000LL * 1024);
  EXPECT_EQ(ReadCpuQuota(root_), 0);
}

TEST_F(HostLimits, TakesTheTightestGroupOfVersion2) {
  Write("/proc/self/cgroup", "0::/pods/worker\n");
  Write("/sys/fs/cgroup/pods/worker/memory.max", "max\n");
  Write("/sys/fs/cgroup/pods/worker/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/pods/memory.max", "4294967296\n");
  Write("/sys/fs/cgroup/pods/memory.current", "3221225472\n");
  Write("/sys/fs/cgroup/pods/memory.stat", "anon 5\ninactive_file 1073741824\n");
  Write("/sys/fs/cgroup/pods/cpu.max", "150000 100000\n");
  const absl::StatusOr<HostMemory> memory = ReadHostMemory(root_);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->total_bytes, 4294967296);
  EXPECT_EQ(memory->available_bytes, 2147483648);
  EXPECT_EQ(ReadCpuQuota(root_), 1.5);
}

TEST_F(HostLimits, ReadsTheMountRootInsideAContainer) {
  Write("/proc/self/cgroup", "0::/not/visible/here\n");
  Write("/sys/fs/cgroup/memory.max", "1073741824\n");
  Write("/sys/fs/cgroup/memory.current", "2147483648\n");  // over the limit just now
  const absl::StatusOr<HostMemory> memory = ReadHostMemory(root_);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->total_bytes, 1073741824);
  EXPECT_EQ(memory->available_bytes, 0);
}

TEST_F(HostLimits, ReadsVersion1Controllers) {
  Write("/proc/self/cgroup", "4:memory:/a\n2:cpu,cpuacct:/b\n0::/\n");
  Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2147483648\n");
  Write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1073741824\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/b/cpu.cfs_quota_us", "50000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/b/cpu.cfs_period_us", "100000\n");
  const absl::StatusOr<HostMemory> memory = ReadHostMemory(root_);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->total_bytes, 2147483648);
  EXPECT_EQ(memory->available_bytes, 1073741824);
  EXPECT_EQ(ReadCpuQuota(root_), 0.5);
}

TEST_F(HostLimits, ReportsAMissingMeminfo) {
  EXPECT_EQ(ReadHostMemory(root_ + "/nowhere").status().code(), absl::StatusCode::kInternal);
}

TEST(ThisHost, HasMemoryAndThreads) {
  const absl::StatusOr<HostMemory> memory = ReadHostMemory();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->available_bytes, 0);
  EXPECT_LE(memory->available_bytes, memory->total_bytes);
  EXPECT_GE(DefaultThreads(), 1);
  EXPECT_LE(DefaultThreads(), AllowedCpus());
}

}  // namespace
}  // namespace octavo
