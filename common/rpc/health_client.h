// Asks a server's grpc.health.v1 service: what probes and scripts need.
#ifndef OCTAVO_COMMON_RPC_HEALTH_CLIENT_H_
#define OCTAVO_COMMON_RPC_HEALTH_CLIENT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace octavo {

// OK when `service` ("" asks whether the process is alive) is SERVING at `target` ("host:port").
// UNAVAILABLE when it is not serving or nothing listens, NOT_FOUND for a service that the server
// does not know, DEADLINE_EXCEEDED when there is no answer within `timeout`.
absl::Status CheckHealth(const std::string& target, const std::string& service,
                         absl::Duration timeout);

}  // namespace octavo

#endif  // OCTAVO_COMMON_RPC_HEALTH_CLIENT_H_
