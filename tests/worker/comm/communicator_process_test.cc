// Ranks in processes of their own, which can be killed and stopped.
#include <csignal>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/comm/gloo_communicator.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

void WriteText(int fd, const std::string& text) {
  const auto size = static_cast<uint32_t>(text.size());
  ASSERT_EQ(write(fd, &size, sizeof(size)), static_cast<ssize_t>(sizeof(size)));
  ASSERT_EQ(write(fd, text.data(), size), static_cast<ssize_t>(size));
}

// Empty at the end of the stream.
std::string ReadText(int fd) {
  uint32_t size = 0;
  if (recv(fd, &size, sizeof(size), MSG_WAITALL) != static_cast<ssize_t>(sizeof(size))) return "";
  std::string text(size, '\0');
  if (recv(fd, text.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) return "";
  return text;
}

// Joins, says so, and sums until something fails; reports the sums and the error.
[[noreturn]] void RunRank(int fd, const GroupPlace& place, absl::Duration timeout, int rounds) {
  std::signal(SIGPIPE, SIG_IGN);
  alarm(60);  // no test leaves a process behind
  auto offer = OfferGloo({.place = place, .timeout = timeout});
  if (!offer.ok()) _exit(2);
  WriteText(fd, (*offer)->address());
  std::vector<std::string> addresses;
  for (int32_t rank = 0; rank < place.size; ++rank) addresses.push_back(ReadText(fd));
  auto communicator = (*offer)->Join(addresses);
  WriteText(fd, communicator.ok() ? "joined" : communicator.status().ToString());
  if (!communicator.ok()) _exit(3);
  double total = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<float> data(5000, static_cast<float>(place.rank + 1));
    const absl::Status status = (*communicator)->AllReduceSum(data.data(), 5000);
    if (!status.ok()) {
      WriteText(fd, status.ToString());
      _exit(0);
    }
    total += data[4999];
  }
  WriteText(fd, "sum " + std::to_string(static_cast<int64_t>(total)));
  ReadText(fd);  // until the others are done too
  _exit(0);
}

class Processes {
 public:
  Processes(int32_t size, absl::Duration timeout, int rounds) {
    for (int32_t rank = 0; rank < size; ++rank) {
      int ends[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
      const pid_t pid = fork();
      if (pid == 0) {
        close(ends[0]);
        RunRank(ends[1], {rank, size}, timeout, rounds);
      }
      close(ends[1]);
      fds_.push_back(ends[0]);
      pids_.push_back(pid);
    }
    std::vector<std::string> addresses;
    for (const int fd : fds_) addresses.push_back(ReadText(fd));
    for (const int fd : fds_)
      for (const std::string& address : addresses) WriteText(fd, address);
    for (const int fd : fds_) EXPECT_EQ(ReadText(fd), "joined");
  }
  ~Processes() {
    for (const int fd : fds_) close(fd);
    for (const pid_t pid : pids_) {
      kill(pid, SIGCONT);
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  void Signal(int32_t rank, int signal) { kill(pids_[static_cast<size_t>(rank)], signal); }
  std::string Read(int32_t rank) { return ReadText(fds_[static_cast<size_t>(rank)]); }

 private:
  std::vector<int> fds_;
  std::vector<pid_t> pids_;
};

constexpr int kForever = 1 << 30;

TEST(CommunicatorProcess, RanksSumAcrossProcesses) {
  for (const int32_t size : {2, 3}) {
    Processes ranks(size, absl::Seconds(20), 200);
    for (int32_t rank = 0; rank < size; ++rank)
      EXPECT_EQ(ranks.Read(rank), "sum " + std::to_string(200 * size * (size + 1) / 2));
  }
}

TEST(CommunicatorProcess, AKilledRankIsReportedLongBeforeTheTimeout) {
  Processes ranks(3, absl::Seconds(30), kForever);
  const absl::Time start = absl::Now();
  ranks.Signal(2, SIGKILL);
  for (const int32_t rank : {0, 1}) EXPECT_THAT(ranks.Read(rank), HasSubstr("is gone"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST(CommunicatorProcess, AStoppedRankIsReportedAfterTheTimeout) {
  Processes ranks(2, absl::Seconds(3), kForever);
  const absl::Time start = absl::Now();
  ranks.Signal(1, SIGSTOP);
  EXPECT_THAT(ranks.Read(0), HasSubstr("rank 1 of 2 did not answer within 3s"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

}  // namespace
}  // namespace octavo
