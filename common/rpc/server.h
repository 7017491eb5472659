// The listener that every program of Octavo uses: one gRPC server with health service, reflection
// and keepalive that tolerates silent streams.
#ifndef OCTAVO_COMMON_RPC_SERVER_H_
#define OCTAVO_COMMON_RPC_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace octavo {

struct RpcServerOptions {
  std::string host = "127.0.0.1";  // name or address; "::1" is fine
  int port = 0;                    // 0: a free one, reported by port()
  int max_receive_bytes = 64 << 20;
  // Full service names for the health service; each starts as NOT_SERVING. The default service ""
  // says SERVING from the start: it means that the process is alive.
  std::vector<std::string> health_services;
};

// Thread-safe after Start.
class RpcServer {
 public:
  // ALREADY_EXISTS when the port is taken, PERMISSION_DENIED when it is not ours to take,
  // INVALID_ARGUMENT for a host that is no address of this machine; all name host and port.
  // `services` must outlive the server.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(
      const RpcServerOptions& options, const std::vector<grpc::Service*>& services);
  ~RpcServer();  // Shutdown without grace
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  int port() const { return port_; }
  const std::string& address() const { return address_; }  // "127.0.0.1:50051"

  // Sets what the health service answers for one of options.health_services, or "".
  void SetServing(const std::string& service, bool serving);

  // Health turns to NOT_SERVING, no new call is accepted, running calls get `grace` to end and are
  // then cancelled. Returns when all have ended. Safe to call twice.
  void Shutdown(absl::Duration grace);
  // Returns when Shutdown has been called elsewhere and is done.
  void Wait();

 private:
  RpcServer() = default;

  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  int port_ = 0;
};

// Binds and lets go again, to say why a listener cannot be opened: errors as of RpcServer::Start.
// Returns the numeric address that the host stands for.
absl::StatusOr<std::string> ProbeListen(const std::string& host, int port);

// "host:port", with brackets around an IPv6 address.
std::string JoinHostPort(const std::string& host, int port);

// Splits "host:port" or "[v6]:port". INVALID_ARGUMENT with the text for anything else.
struct HostPort {
  std::string host;
  int port = 0;
};
absl::StatusOr<HostPort> ParseHostPort(absl::string_view text);

// Arguments of a client channel that stays open through long silences and large messages: pings
// every 30 s, also when idle, and an own connection for each channel.
grpc::ChannelArguments ClientChannelArguments();

}  // namespace octavo

#endif  // OCTAVO_COMMON_RPC_SERVER_H_
