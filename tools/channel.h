// How the client commands reach a server and report what it refused.
#ifndef OCTAVO_TOOLS_CHANNEL_H_
#define OCTAVO_TOOLS_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace octavo::tools {

inline constexpr char kDefaultTarget[] = "127.0.0.1:50051";

// Insecure, with message limits that fit long prompts. Connects lazily.
std::shared_ptr<grpc::Channel> Connect(const std::string& target);

// "INVALID_ARGUMENT"
std::string CodeName(grpc::StatusCode code);

// "RESOURCE_EXHAUSTED: queue holds 4,096 requests (limit 4,096); retry in 500ms", with the details
// of google.rpc that the status carries.
std::string Describe(const grpc::Status& status);

// The server's RetryInfo, or `fallback` when it gave none.
absl::Duration RetryDelay(const grpc::Status& status, absl::Duration fallback);

// Worth another try later: the server is full, loading or gone.
bool Retryable(const grpc::Status& status);

}  // namespace octavo::tools

#endif  // OCTAVO_TOOLS_CHANNEL_H_
