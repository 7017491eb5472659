// octavo.v1.Generation.Generate on the wire.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_GENERATE_REACTOR_H_
#define OCTAVO_SCHEDULER_TRANSPORT_GENERATE_REACTOR_H_

#include <memory>

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"
#include "octavo/v1/generation.pb.h"
#include "scheduler/transport/generate_call.h"

namespace octavo {

// Deletes itself when gRPC says OnDone.
class GenerateReactor : public grpc::ServerWriteReactor<v1::GenerateResponse>, private MessageSink {
 public:
  // Starts the call; gRPC owns what is returned until OnDone. `grpc_call` and `request` live that
  // long.
  static GenerateReactor* Start(const GenerateContext& context,
                                grpc::CallbackServerContext* grpc_call,
                                const v1::GenerateRequest* request);

  // Of gRPC, none before Start has returned.
  void OnSendInitialMetadataDone(bool) override {}
  void OnWriteDone(bool ok) override { call_->OnWritten(ok); }
  void OnCancel() override { call_->OnCancelled(); }
  void OnDone() override { delete this; }

 private:
  explicit GenerateReactor(grpc::CallbackServerContext* grpc_call) : grpc_call_(grpc_call) {}

  void Admitted() override { StartSendInitialMetadata(); }
  bool Write(v1::GenerateResponse* message, bool last) override;
  void Finish(const absl::Status& status) override;

  grpc::CallbackServerContext* const grpc_call_;
  std::shared_ptr<GenerateCall> call_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_GENERATE_REACTOR_H_
