// absl::Status on the wire: code, message and payloads (as google.rpc.Status in the trailer
// grpc-status-details-bin), so that both ends of a call see the same status.
#ifndef OCTAVO_COMMON_RPC_GRPC_STATUS_H_
#define OCTAVO_COMMON_RPC_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"

namespace octavo {

grpc::Status ToGrpcStatus(const absl::Status& status);
// A code outside absl's range becomes UNKNOWN.
absl::Status FromGrpcStatus(const grpc::Status& status);

// ToGrpcStatus, and for a status with a retry delay also the trailer grpc-retry-pushback-ms, which
// gRPC's own retry logic obeys. Call before the call is finished.
grpc::Status FinishStatus(const absl::Status& status, grpc::ServerContextBase* context);

}  // namespace octavo

#endif  // OCTAVO_COMMON_RPC_GRPC_STATUS_H_
