#include "common/rpc/server.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "grpc/support/log.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"

namespace octavo {
namespace {

// Server and client agree on these: a stream may be silent for as long as a request queues.
constexpr int kPingEveryMs = 30'000;
constexpr int kPingTimeoutMs = 20'000;
constexpr int kLeastPingIntervalMs = 10'000;

absl::Status BindError(const std::string& where, int error) {
  const std::string text = absl::StrCat("cannot listen on ", where, ": ", std::strerror(error));
  if (error == EADDRINUSE) return absl::AlreadyExistsError(text);
  if (error == EACCES) return absl::PermissionDeniedError(text);
  return absl::InvalidArgumentError(text);
}

void LogFromGrpc(gpr_log_func_args* args) { OCTAVO_LOG(kDebug, "grpc: ", args->message); }

// Once per process, before the first server: what gRPC reports becomes debug lines of our log,
// since every failure that matters comes back as a status too.
void PrepareGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(LogFromGrpc);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    const RpcServerOptions& options, const std::vector<grpc::Service*>& services) {
  if (options.port < 0 || options.port > 65535)
    return absl::InvalidArgumentError(
        absl::StrCat("port is ", options.port, "; it must be between 0 and 65535"));
  PrepareGrpc();
  // gRPC says only that a port could not be bound; this says why.
  if (const auto probed = ProbeListen(options.host, options.port); !probed.ok())
    return probed.status();

  grpc::ServerBuilder builder;
  // Without this a second process could share the port and take half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kLeastPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.SetMaxSendMessageSize(-1);
  for (grpc::Service* service : services) builder.RegisterService(service);
  auto server = std::unique_ptr<RpcServer>(new RpcServer);
  builder.AddListeningPort(JoinHostPort(options.host, options.port),
                           grpc::InsecureServerCredentials(), &server->port_);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || server->port_ == 0)
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", JoinHostPort(options.host, options.port)));
  server->address_ = JoinHostPort(options.host, server->port_);
  for (const std::string& name : options.health_services) server->SetServing(name, false);
  return server;
}

absl::StatusOr<std::string> ProbeListen(const std::string& host, int port) {
  const std::string where = JoinHostPort(host, port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int lookup = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (lookup != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", where, ": ", gai_strerror(lookup)));
  std::string address;
  int error = EADDRNOTAVAIL;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
    if (fd < 0) continue;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    char numeric[NI_MAXHOST];
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0)
      error = errno;
    else if (address.empty() && getnameinfo(at->ai_addr, at->ai_addrlen, numeric, sizeof(numeric),
                                            nullptr, 0, NI_NUMERICHOST) == 0)
      address = numeric;
    close(fd);
  }
  freeaddrinfo(found);
  if (error == EADDRINUSE || address.empty()) return BindError(where, error);
  return address;
}

RpcServer::~RpcServer() { Shutdown(absl::ZeroDuration()); }

void RpcServer::SetServing(const std::string& service, bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(service, serving);
}

void RpcServer::Shutdown(absl::Duration grace) {
  if (server_ == nullptr) return;
  server_->GetHealthCheckService()->Shutdown();
  server_->Shutdown(absl::ToChronoTime(absl::Now() + grace));
}

void RpcServer::Wait() { server_->Wait(); }

std::string JoinHostPort(const std::string& host, int port) {
  if (host.find(':') != std::string::npos) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const auto wrong = [text] {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not HOST:PORT with a port between 0 and 65535"));
  };
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return wrong();
  HostPort result;
  absl::string_view host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != absl::string_view::npos)
    return wrong();
  if (host.empty()) return wrong();
  const absl::string_view digits = text.substr(colon + 1);
  if (digits.empty() || digits.front() == '-' || !absl::SimpleAtoi(digits, &result.port) ||
      result.port > 65535)
    return wrong();
  result.host = std::string(host);
  return result;
}

grpc::ChannelArguments ClientChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(64 << 20);
  arguments.SetMaxSendMessageSize(-1);
  return arguments;
}

}  // namespace octavo
