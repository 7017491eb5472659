// Ranks on CUDA cards, through NCCL.
#ifndef OCTAVO_WORKER_COMM_NCCL_COMMUNICATOR_H_
#define OCTAVO_WORKER_COMM_NCCL_COMMUNICATOR_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"

namespace octavo {

// Sums and gathers go to `stream`, that of the backend's ops, and are of its card's memory. What is
// in host memory goes over connections between the ranks (GlooMesh), which also say who is missing:
// NCCL knows no names, and of a rank that died on the same machine nothing at all. Sums are in
// NCCL's order. REQUIRES: the card is current on the calling thread, which becomes the owner.
absl::StatusOr<std::unique_ptr<CommunicatorOffer>> OfferNccl(const CommunicatorOptions& options,
                                                             cudaStream_t stream);

// NCCL takes the interface of its own connections from the environment alone: NCCL_SOCKET_IFNAME,
// which this sets unless it is set. REQUIRES: no other thread reads or writes the environment.
void ChooseNcclInterface(const std::string& interface);

}  // namespace octavo

#endif  // OCTAVO_WORKER_COMM_NCCL_COMMUNICATOR_H_
