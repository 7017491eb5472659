#include "tests/worker/comm/rank_processes.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "gtest/gtest.h"

namespace octavo {
namespace {

constexpr unsigned kMostSeconds = 60;  // no test leaves a process behind

// Whoever does not hear it has died, and says nothing more.
void WriteText(int fd, const std::string& text) {
  const auto size = static_cast<uint32_t>(text.size());
  send(fd, &size, sizeof(size), MSG_NOSIGNAL);
  send(fd, text.data(), size, MSG_NOSIGNAL);
}

// Empty at the end of the stream.
std::string ReadText(int fd) {
  uint32_t size = 0;
  if (recv(fd, &size, sizeof(size), MSG_WAITALL) != static_cast<ssize_t>(sizeof(size))) return "";
  std::string text(size, '\0');
  if (recv(fd, text.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) return "";
  return text;
}

[[noreturn]] void RunRank(int fd, const GroupPlace& place, const RankProcesses::Offer& make_offer,
                          const RankProcesses::Work& work) {
  std::signal(SIGPIPE, SIG_IGN);  // as programs do (common/program)
  alarm(kMostSeconds);
  auto offer = make_offer(place);
  if (!offer.ok()) _exit(2);
  WriteText(fd, (*offer)->address());
  std::vector<std::string> addresses;
  for (int32_t rank = 0; rank < place.size; ++rank) addresses.push_back(ReadText(fd));
  auto communicator = (*offer)->Join(addresses);
  WriteText(fd, communicator.ok() ? "joined" : communicator.status().ToString());
  if (!communicator.ok()) _exit(3);
  WriteText(fd, work(**communicator));
  ReadText(fd);  // until the others are done too
  _exit(0);
}

}  // namespace

RankProcesses::RankProcesses(int32_t size, const Offer& offer, const Work& work) {
  for (int32_t rank = 0; rank < size; ++rank) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      close(ends[0]);
      RunRank(ends[1], {rank, size}, offer, work);
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

RankProcesses::~RankProcesses() {
  for (const int fd : fds_) close(fd);
  for (const pid_t pid : pids_) {
    kill(pid, SIGCONT);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

void RankProcesses::Signal(int32_t rank, int signal) {
  kill(pids_[static_cast<size_t>(rank)], signal);
}

std::string RankProcesses::Answer(int32_t rank) {
  return ReadText(fds_[static_cast<size_t>(rank)]);
}

}  // namespace octavo
