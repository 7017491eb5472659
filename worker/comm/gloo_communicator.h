// Ranks of CPU workers, connected by TCP through Gloo.
#ifndef OCTAVO_WORKER_COMM_GLOO_COMMUNICATOR_H_
#define OCTAVO_WORKER_COMM_GLOO_COMMUNICATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/comm/communicator.h"

namespace octavo {

// Listens on the interface for the other ranks. INVALID_ARGUMENT naming an interface that has no
// address. The connections carry no authentication: the interface must be one that only the group's
// hosts can reach.
absl::StatusOr<std::unique_ptr<CommunicatorOffer>> OfferGloo(const CommunicatorOptions& options);

}  // namespace octavo

#endif  // OCTAVO_WORKER_COMM_GLOO_COMMUNICATOR_H_
