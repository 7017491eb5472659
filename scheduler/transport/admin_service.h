// octavo.v1.Admin.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_ADMIN_SERVICE_H_
#define OCTAVO_SCHEDULER_TRANSPORT_ADMIN_SERVICE_H_

#include <functional>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "octavo/v1/admin.grpc.pb.h"
#include "scheduler/engine/engine_loop.h"
#include "scheduler/transport/request_registry.h"
#include "scheduler/transport/task_pool.h"

namespace octavo {

inline constexpr char kAdminServiceName[] = "octavo.v1.Admin";

// Thread-safe; outlives its calls. Calls that wait for a step boundary do so on a thread of their
// own, not on gRPC's.
class AdminService : public v1::Admin::CallbackService {
 public:
  static constexpr uint32_t kMostListed = 1000;

  // `engine` and `registry` outlive the service.
  AdminService(EngineLoop* engine, const RequestRegistry* registry, std::string model_name);

  grpc::ServerUnaryReactor* GetState(grpc::CallbackServerContext* context,
                                     const v1::GetStateRequest* request,
                                     v1::GetStateResponse* response) override;
  grpc::ServerUnaryReactor* FlushPrefixCache(grpc::CallbackServerContext* context,
                                             const v1::FlushPrefixCacheRequest* request,
                                             v1::FlushPrefixCacheResponse* response) override;
  grpc::ServerUnaryReactor* ListRequests(grpc::CallbackServerContext* context,
                                         const v1::ListRequestsRequest* request,
                                         v1::ListRequestsResponse* response) override;
  grpc::ServerUnaryReactor* ExplainRequest(grpc::CallbackServerContext* context,
                                           const v1::ExplainRequestRequest* request,
                                           v1::ExplainRequestResponse* response) override;
  grpc::ServerUnaryReactor* GetBlockTable(grpc::CallbackServerContext* context,
                                          const v1::GetBlockTableRequest* request,
                                          v1::GetBlockTableResponse* response) override;
  grpc::ServerUnaryReactor* GetTraffic(grpc::CallbackServerContext* context,
                                       const v1::GetTrafficRequest* request,
                                       v1::GetTrafficResponse* response) override;

 private:
  grpc::ServerUnaryReactor* RunTask(grpc::CallbackServerContext* context,
                                    std::function<absl::Status()> work);
  // NOT_FOUND for a request that has ended or never was.
  absl::StatusOr<RequestId> Find(const std::string& request_id) const;

  EngineLoop* const engine_;
  const RequestRegistry* const registry_;
  const std::string model_name_;
  const absl::Time started_;
  TaskPool tasks_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_ADMIN_SERVICE_H_
