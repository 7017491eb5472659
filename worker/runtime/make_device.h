// Chooses and opens the device of a worker.
#ifndef OCTAVO_WORKER_RUNTIME_MAKE_DEVICE_H_
#define OCTAVO_WORKER_RUNTIME_MAKE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint.h"
#include "common/dtype.h"
#include "worker/backend/backend.h"
#include "worker/comm/communicator.h"

namespace octavo {

struct DeviceOptions {
  std::string backend = "cpu";         // cpu, cuda
  int32_t index = 0;                   // of the card, among those CUDA_VISIBLE_DEVICES leaves
  int32_t threads = 0;                 // 0: the physical cores that affinity and cgroup allow
  std::string dtype = "auto";          // of activations: auto, float32, bfloat16, int8, float16
  std::string isa = "auto";            // auto, avx2, avx512, amx
  std::string weight_format = "auto";  // of weights on a card: auto, stored, bf16, fp8
  bool deterministic = false;          // of cuda: batch mates do not change a row's attention
  // Network interface of the worker's group; empty: it is alone. In a group the steps of a card are
  // launched op by op, since a recording would have to hold the collectives of all ranks.
  std::string group_interface;
};

// What "auto" means for a checkpoint where the CPU can: bfloat16 when its matrices are, int8 when
// they are stored in a format of the int8 products, float32 otherwise. Without VNNI, or with isa
// avx2, float32 takes the place of int8.
absl::StatusOr<DType> AutoActivationDType(const Checkpoint& checkpoint);

// Whether weight format "auto" keeps a model's 4-bit and 8-bit weights as they are stored: when
// they would take more than 1 GiB in bf16, which a card reads in about a quarter of a millisecond,
// what the launches of a step cost anyway.
bool AutoKeepsQuantized(const ModelConfig& config);

// What 0 threads means here.
int32_t DefaultComputeThreads();

// INVALID_ARGUMENT naming the option; FAILED_PRECONDITION when the machine lacks the instruction
// set or the card; UNIMPLEMENTED for the cuda backend in a build without it. REQUIRES, in a group:
// no other thread reads or writes the environment.
absl::StatusOr<std::unique_ptr<Backend>> MakeDevice(const DeviceOptions& options,
                                                    const Checkpoint& checkpoint);

// How ranks with such a device reach each other: over NCCL from a card, over Gloo from a CPU.
// REQUIRES: on the thread that owns `backend`, which MakeDevice made and which outlives the group.
absl::StatusOr<std::unique_ptr<CommunicatorOffer>> OfferCommunicator(
    Backend& backend, const CommunicatorOptions& options);

}  // namespace octavo

#endif  // OCTAVO_WORKER_RUNTIME_MAKE_DEVICE_H_
