// octavo.v1.Admin.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_ADMIN_SERVICE_H_
#define OCTAVO_SCHEDULER_TRANSPORT_ADMIN_SERVICE_H_

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "octavo/v1/admin.grpc.pb.h"
#include "scheduler/engine/engine_loop.h"

namespace octavo {

inline constexpr char kAdminServiceName[] = "octavo.v1.Admin";

// Thread-safe.
class AdminService : public v1::Admin::CallbackService {
 public:
  // `engine` outlives the service.
  AdminService(const EngineLoop* engine, std::string model_name)
      : engine_(engine), model_name_(std::move(model_name)), started_(absl::Now()) {}

  grpc::ServerUnaryReactor* GetState(grpc::CallbackServerContext* context,
                                     const v1::GetStateRequest* request,
                                     v1::GetStateResponse* response) override;

 private:
  const EngineLoop* const engine_;
  const std::string model_name_;
  const absl::Time started_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_ADMIN_SERVICE_H_
