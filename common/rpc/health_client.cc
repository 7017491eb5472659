#include "common/rpc/health_client.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/rpc/grpc_status.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace octavo {

absl::Status CheckHealth(const std::string& target, const std::string& service,
                         absl::Duration timeout) {
  const auto channel = grpc::CreateChannel(target, grpc::InsecureChannelCredentials());
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  if (response.status() != grpc::health::v1::HealthCheckResponse::SERVING)
    return absl::UnavailableError(
        absl::StrCat(target, ": ", service.empty() ? "the process" : service, " is ",
                     grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response.status())));
  return absl::OkStatus();
}

}  // namespace octavo
