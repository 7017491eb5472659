#include "tools/worker_processes.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "worker/runtime/make_device.h"

namespace octavo::tools {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(10);
constexpr absl::Duration kListenTimeout = absl::Minutes(1);
// More than a worker gives its last calls.
constexpr absl::Duration kStopTimeout = absl::Seconds(10);

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("was ended by signal ", WTERMSIG(status));
  return absl::StrCat("ended with exit status ", WEXITSTATUS(status));
}

// Beside this program.
absl::StatusOr<std::string> WorkerProgram() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto program = self.parent_path() / "octavo-worker";
  if (error || !std::filesystem::exists(program, error))
    return absl::NotFoundError(
        absl::StrCat("no octavo-worker at ", program.string(), " to start as a rank"));
  return program.string();
}

absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot start a worker process");
  if (pid > 0) return pid;
  // A Ctrl-C is for the parent, which lets running requests end first.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  execv(argv[0], argv.data());
  _exit(127);
}

}  // namespace

std::vector<std::string> WorkerArguments(const std::string& program, const WorkerFlags& flags,
                                         int32_t rank, const std::string& port_file) {
  const int32_t threads = flags.device.threads > 0 ? flags.device.threads : DefaultComputeThreads();
  std::vector<std::string> arguments = {program};
  const auto add = [&](const char* name, const auto& value) {
    arguments.push_back(name);
    arguments.push_back(absl::StrCat(value));
  };
  add("--model", flags.model_path);
  add("--load-format", flags.load_format);
  add("--listen", "127.0.0.1:0");
  add("--port-file", port_file);
  add("--tensor-parallel-size", flags.place.size);
  add("--tensor-parallel-rank", rank);
  add("--communicator-interface", flags.communicator_interface);
  add("--communicator-timeout", flags.communicator_timeout_seconds);
  add("--backend", flags.device.backend);
  // One card each, the first of them the one that was asked for.
  add("--device", flags.device.index + (flags.device.backend == "cuda" ? rank : 0));
  add("--threads", std::max(1, threads / flags.place.size));
  add("--dtype", flags.device.dtype);
  add("--isa", flags.device.isa);
  if (flags.device.deterministic) arguments.push_back("--deterministic");
  const MemoryFlags& memory = flags.memory;
  if (memory.utilization) add("--gpu-memory-utilization", *memory.utilization);
  if (memory.kv_cache_bytes > 0) add("--kv-cache-memory-bytes", memory.kv_cache_bytes);
  if (memory.swap_bytes >= 0) add("--swap-space", memory.swap_bytes);
  add("--log-level", flags.log.level);
  add("--log-format", flags.log.format);
  return arguments;
}

absl::StatusOr<std::unique_ptr<WorkerProcesses>> WorkerProcesses::Start(const WorkerFlags& flags) {
  auto processes = absl::WrapUnique(new WorkerProcesses);
  OCTAVO_RETURN_IF_ERROR(processes->Launch(flags));
  return processes;
}

absl::Status WorkerProcesses::Launch(const WorkerFlags& flags) {
  OCTAVO_ASSIGN_OR_RETURN(const std::string program, WorkerProgram());
  std::string folder = (std::filesystem::temp_directory_path() / "octavo-serve-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", folder));
  folder_ = folder;
  for (int32_t rank = 0; rank < flags.place.size; ++rank) {
    OCTAVO_ASSIGN_OR_RETURN(const pid_t pid,
                            Spawn(WorkerArguments(program, flags, rank, PortFile(rank))));
    workers_.push_back({pid, std::nullopt});
  }
  const absl::Time deadline = absl::Now() + kListenTimeout;
  for (int32_t rank = 0; rank < flags.place.size; ++rank)
    OCTAVO_RETURN_IF_ERROR(AwaitPort(rank, deadline));
  return absl::OkStatus();
}

absl::Status WorkerProcesses::AwaitPort(int32_t rank, absl::Time deadline) {
  while (true) {
    std::string line;
    if (std::ifstream file(PortFile(rank)); std::getline(file, line)) {
      addresses_.emplace_back(absl::StripPrefix(line, "grpc="));
      return absl::OkStatus();
    }
    OCTAVO_RETURN_IF_ERROR(Check());
    if (absl::Now() > deadline)
      return absl::DeadlineExceededError(absl::StrCat("the worker of rank ", rank,
                                                      " does not listen after ",
                                                      absl::FormatDuration(kListenTimeout)));
    absl::SleepFor(kPoll);
  }
}

absl::Status WorkerProcesses::Check() {
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    Worker& worker = workers_[rank];
    int status = 0;
    if (!worker.ended && waitpid(worker.pid, &status, WNOHANG) == worker.pid) worker.ended = status;
    if (worker.ended)
      return absl::UnavailableError(absl::StrCat("the worker of rank ", rank, ", process ",
                                                 worker.pid, ", ", HowItEnded(*worker.ended)));
  }
  return absl::OkStatus();
}

bool WorkerProcesses::AllEnded() {
  bool all = true;
  for (Worker& worker : workers_) {
    int status = 0;
    if (!worker.ended && waitpid(worker.pid, &status, WNOHANG) == worker.pid) worker.ended = status;
    all &= worker.ended.has_value();
  }
  return all;
}

WorkerProcesses::~WorkerProcesses() {
  const auto signal_all = [this](int signal) {
    for (const Worker& worker : workers_)
      if (!worker.ended) kill(worker.pid, signal);
  };
  signal_all(SIGTERM);
  const absl::Time deadline = absl::Now() + kStopTimeout;
  while (!AllEnded() && absl::Now() < deadline) absl::SleepFor(kPoll);
  signal_all(SIGKILL);
  for (const Worker& worker : workers_)
    if (!worker.ended) waitpid(worker.pid, nullptr, 0);
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

std::string WorkerProcesses::PortFile(int32_t rank) const {
  return absl::StrCat(folder_, "/rank-", rank);
}

}  // namespace octavo::tools
