// The flags of a worker: of octavo-worker, and of the worker inside `octavo serve`.
#ifndef OCTAVO_WORKER_TRANSPORT_FLAGS_H_
#define OCTAVO_WORKER_TRANSPORT_FLAGS_H_

#include <string>

#include "CLI/CLI.hpp"
#include "common/program/program.h"
#include "worker/runtime/local_executor.h"

namespace octavo {

struct WorkerFlags {
  std::string model_path;
  std::string load_format = "auto";
  std::string listen = "127.0.0.1:50061";
  std::string port_file;
  bool health_check = false;
  DeviceOptions device;
  MemoryFlags memory;
  GroupPlace place;  // which share of the model this worker holds
  std::string communicator_interface = "lo";
  double communicator_timeout_seconds = 30;
  LogFlags log;
};

// `embedded` leaves out what `octavo serve` has once for both sides: the model, the listener, the
// program's own flags, and any name that `app` has already.
void AddWorkerFlags(CLI::App& app, WorkerFlags* flags, bool embedded);

// Adds --communicator-timeout.
void AddCommunicatorTimeoutFlag(CLI::App& app, WorkerFlags* flags);

// REQUIRES: parsed flags.
LocalExecutorOptions ExecutorOptions(const WorkerFlags& flags, const std::string& name);

}  // namespace octavo

#endif  // OCTAVO_WORKER_TRANSPORT_FLAGS_H_
