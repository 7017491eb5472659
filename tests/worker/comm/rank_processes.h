// Ranks in processes of their own, which can be killed and stopped.
#ifndef OCTAVO_TESTS_WORKER_COMM_RANK_PROCESSES_H_
#define OCTAVO_TESTS_WORKER_COMM_RANK_PROCESSES_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"

namespace octavo {

class RankProcesses {
 public:
  using Offer =
      std::function<absl::StatusOr<std::unique_ptr<CommunicatorOffer>>(const GroupPlace& place)>;
  // In a rank's process; what it answers is for the test.
  using Work = std::function<std::string(Communicator& communicator)>;

  // Founds the group; every rank then works, says its answer, and lives until the end of this.
  // REQUIRES: no other thread runs, since each rank is a fork of this process.
  RankProcesses(int32_t size, const Offer& offer, const Work& work);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  void Signal(int32_t rank, int signal);
  // Its answer; empty when it has died.
  std::string Answer(int32_t rank);

 private:
  std::vector<int> fds_;
  std::vector<pid_t> pids_;
};

}  // namespace octavo

#endif  // OCTAVO_TESTS_WORKER_COMM_RANK_PROCESSES_H_
