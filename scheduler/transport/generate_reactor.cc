#include "scheduler/transport/generate_reactor.h"

#include "absl/time/time.h"
#include "common/rpc/grpc_status.h"

namespace octavo {

GenerateReactor* GenerateReactor::Start(const GenerateContext& context,
                                        grpc::CallbackServerContext* grpc_call,
                                        const v1::GenerateRequest* request) {
  auto* reactor = new GenerateReactor(grpc_call);
  reactor->call_ = GenerateCall::Start(
      context, request, {.deadline = absl::FromChrono(grpc_call->deadline())}, reactor);
  return reactor;
}

bool GenerateReactor::Write(v1::GenerateResponse* message, bool last) {
  if (last) {
    StartWriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK);
  } else {
    StartWrite(message);
  }
  return true;
}

void GenerateReactor::Finish(const absl::Status& status) {
  ServerWriteReactor::Finish(FinishStatus(status, grpc_call_));
}

}  // namespace octavo
