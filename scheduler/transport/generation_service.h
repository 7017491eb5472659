// octavo.v1.Generation.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_GENERATION_SERVICE_H_
#define OCTAVO_SCHEDULER_TRANSPORT_GENERATION_SERVICE_H_

#include "grpcpp/grpcpp.h"
#include "octavo/v1/generation.grpc.pb.h"
#include "scheduler/engine/engine_loop.h"
#include "scheduler/transport/generate_reactor.h"
#include "scheduler/transport/request_registry.h"
#include "scheduler/transport/served_model.h"
#include "scheduler/transport/task_pool.h"

namespace octavo {

inline constexpr char kGenerationServiceName[] = "octavo.v1.Generation";

// Thread-safe; outlives its calls.
class GenerationService : public v1::Generation::CallbackService {
 public:
  // Both outlive the service.
  GenerationService(EngineLoop* engine, const ServedModel* model);

  const RequestRegistry& registry() const { return registry_; }

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* context,
                                  const v1::AbortRequest* request,
                                  v1::AbortResponse* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;

 private:
  // Runs `work` on the task pool and ends the call with its status.
  grpc::ServerUnaryReactor* RunTask(grpc::CallbackServerContext* context,
                                    std::function<absl::Status()> work);

  EngineLoop* const engine_;
  const ServedModel* const model_;
  RequestRegistry registry_;
  TaskPool tasks_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_GENERATION_SERVICE_H_
