#include "common/rpc/grpc_status.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/error_details.h"
#include "google/rpc/status.pb.h"

namespace octavo {
namespace {

absl::StatusCode ToAbslCode(grpc::StatusCode code) {
  const int value = static_cast<int>(code);
  const bool known = value >= 0 && value <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return known ? static_cast<absl::StatusCode>(value) : absl::StatusCode::kUnknown;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status wire;
  status.ForEachPayload([&wire](absl::string_view type_url, const absl::Cord& payload) {
    auto* any = wire.add_details();
    any->set_type_url(std::string(type_url));
    any->set_value(std::string(payload));
  });
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message(status.message());
  if (wire.details().empty()) return grpc::Status(code, message);
  wire.set_code(static_cast<int>(code));
  wire.set_message(message);
  return grpc::Status(code, message, wire.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(ToAbslCode(status.error_code()), status.error_message());
  google::rpc::Status wire;
  if (!status.error_details().empty() && wire.ParseFromString(status.error_details()))
    for (const auto& any : wire.details())
      result.SetPayload(any.type_url(), absl::Cord(any.value()));
  return result;
}

grpc::Status FinishStatus(const absl::Status& status, grpc::ServerContextBase* context) {
  if (const std::optional<absl::Duration> delay = RetryDelayOf(status))
    context->AddTrailingMetadata("grpc-retry-pushback-ms",
                                 absl::StrCat(absl::ToInt64Milliseconds(*delay)));
  return ToGrpcStatus(status);
}

}  // namespace octavo
