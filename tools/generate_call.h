// One Generate call that runs on gRPC's own threads, so that a command can hold hundreds.
#ifndef OCTAVO_TOOLS_GENERATE_CALL_H_
#define OCTAVO_TOOLS_GENERATE_CALL_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "octavo/v1/generation.grpc.pb.h"

namespace octavo::tools {

// Callbacks run on gRPC threads, one at a time per call. Cancel may be called from any thread while
// the object lives; the object may be destroyed once `done` has run.
class GenerateCall : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  using OnMessage = std::function<void(const v1::GenerateResponse&)>;
  using OnFinished = std::function<void(const grpc::Status&)>;

  // Starts at once. `timeout` bounds the whole call.
  GenerateCall(v1::Generation::Stub& stub, v1::GenerateRequest request, absl::Duration timeout,
               OnMessage message, OnFinished finished);

  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  grpc::ClientContext context_;
  const v1::GenerateRequest request_;
  v1::GenerateResponse response_;
  OnMessage message_;
  OnFinished finished_;
};

}  // namespace octavo::tools

#endif  // OCTAVO_TOOLS_GENERATE_CALL_H_
