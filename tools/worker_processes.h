// The workers of `octavo serve --tensor-parallel-size N`: N octavo-worker processes on this
// machine.
#ifndef OCTAVO_TOOLS_WORKER_PROCESSES_H_
#define OCTAVO_TOOLS_WORKER_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/transport/flags.h"

namespace octavo::tools {

// Owned and called by the thread that started it: the processes end with that thread, whatever ends
// it. They log to this process's stderr.
class WorkerProcesses {
 public:
  // Starts flags.place.size workers, which divide flags.device.threads between them, on free ports
  // of the loopback interface, and waits until all listen. UNAVAILABLE naming the rank that ended
  // instead.
  static absl::StatusOr<std::unique_ptr<WorkerProcesses>> Start(const WorkerFlags& flags);
  // Ends those that run: SIGTERM, and SIGKILL for what is still there after a while.
  ~WorkerProcesses();
  WorkerProcesses(const WorkerProcesses&) = delete;
  WorkerProcesses& operator=(const WorkerProcesses&) = delete;

  const std::vector<std::string>& addresses() const { return addresses_; }  // by rank
  // UNAVAILABLE naming a rank that has ended, and how.
  absl::Status Check();

 private:
  struct Worker {
    pid_t pid = 0;
    std::optional<int> ended;  // as waitpid says
  };

  WorkerProcesses() = default;
  absl::Status Launch(const WorkerFlags& flags);
  absl::Status AwaitPort(int32_t rank, absl::Time deadline);
  std::string PortFile(int32_t rank) const;
  bool AllEnded();

  std::string folder_;  // of the port files, while they start
  std::vector<Worker> workers_;
  std::vector<std::string> addresses_;
};

// The command line of one rank's worker, the program's own name first.
std::vector<std::string> WorkerArguments(const std::string& program, const WorkerFlags& flags,
                                         int32_t rank, const std::string& port_file);

}  // namespace octavo::tools

#endif  // OCTAVO_TOOLS_WORKER_PROCESSES_H_
