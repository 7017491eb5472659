#include "tools/generate_call.h"

#include <utility>

namespace octavo::tools {

GenerateCall::GenerateCall(v1::Generation::Stub& stub, v1::GenerateRequest request,
                           absl::Duration timeout, OnMessage message, OnFinished finished)
    : request_(std::move(request)), message_(std::move(message)), finished_(std::move(finished)) {
  if (timeout != absl::InfiniteDuration())
    context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  stub.async()->Generate(&context_, &request_, this);
  StartRead(&response_);
  StartCall();
}

void GenerateCall::OnReadDone(bool ok) {
  if (!ok) return;  // OnDone follows
  message_(response_);
  response_.Clear();
  StartRead(&response_);
}

// The owner may delete this object inside `finished_`, so the callback is moved out first.
void GenerateCall::OnDone(const grpc::Status& status) {
  const OnFinished finished = std::move(finished_);
  finished(status);
}

}  // namespace octavo::tools
