#include "tools/channel.h"

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace octavo::tools {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) details.Clear();
  return details;
}

absl::Duration ToDuration(const google::rpc::RetryInfo& retry) {
  return absl::Seconds(retry.retry_delay().seconds()) +
         absl::Nanoseconds(retry.retry_delay().nanos());
}

}  // namespace

std::shared_ptr<grpc::Channel> Connect(const std::string& target) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(kMaxMessageBytes);
  args.SetMaxSendMessageSize(kMaxMessageBytes);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30000);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Each command owns its connections: a bench must not ride on another channel's.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), args);
}

std::string CodeName(grpc::StatusCode code) {
  switch (code) {
    case grpc::OK:
      return "OK";
    case grpc::CANCELLED:
      return "CANCELLED";
    case grpc::INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case grpc::DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case grpc::NOT_FOUND:
      return "NOT_FOUND";
    case grpc::ALREADY_EXISTS:
      return "ALREADY_EXISTS";
    case grpc::PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case grpc::UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    case grpc::RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case grpc::FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case grpc::ABORTED:
      return "ABORTED";
    case grpc::OUT_OF_RANGE:
      return "OUT_OF_RANGE";
    case grpc::UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case grpc::INTERNAL:
      return "INTERNAL";
    case grpc::UNAVAILABLE:
      return "UNAVAILABLE";
    case grpc::DATA_LOSS:
      return "DATA_LOSS";
    default:
      return "UNKNOWN";
  }
}

std::string Describe(const grpc::Status& status) {
  std::string text = absl::StrCat(CodeName(status.error_code()), ": ", status.error_message());
  const google::rpc::Status details = Details(status);
  for (const auto& any : details.details()) {
    google::rpc::BadRequest bad;
    google::rpc::RetryInfo retry;
    if (any.UnpackTo(&bad)) {
      for (const auto& violation : bad.field_violations())
        if (status.error_message().find(violation.description()) == std::string::npos)
          absl::StrAppend(&text, "; ", violation.field(), ": ", violation.description());
    } else if (any.UnpackTo(&retry)) {
      absl::StrAppend(&text, "; retry in ", absl::FormatDuration(ToDuration(retry)));
    }
  }
  return text;
}

absl::Duration RetryDelay(const grpc::Status& status, absl::Duration fallback) {
  const google::rpc::Status details = Details(status);
  for (const auto& any : details.details()) {
    google::rpc::RetryInfo retry;
    if (any.UnpackTo(&retry)) return ToDuration(retry);
  }
  return fallback;
}

bool Retryable(const grpc::Status& status) {
  return status.error_code() == grpc::RESOURCE_EXHAUSTED ||
         status.error_code() == grpc::UNAVAILABLE;
}

}  // namespace octavo::tools
