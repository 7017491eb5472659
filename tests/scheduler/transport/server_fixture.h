// A whole scheduler over a fake worker, and clients that speak gRPC to it over loopback.
#ifndef OCTAVO_TESTS_SCHEDULER_TRANSPORT_SERVER_FIXTURE_H_
#define OCTAVO_TESTS_SCHEDULER_TRANSPORT_SERVER_FIXTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "octavo/v1/admin.grpc.pb.h"
#include "octavo/v1/generation.grpc.pb.h"
#include "scheduler/transport/scheduler_server.h"
#include "tests/fakes/fake_executor.h"

namespace octavo {

// All messages of one choice, joined.
struct Answer {
  absl::Status status;
  std::vector<TokenId> tokens;
  std::string text;
  std::vector<v1::TokenLogprob> logprobs;
  v1::FinishReason finish = v1::FINISH_REASON_UNSPECIFIED;
  v1::Usage usage;
  std::string request_id;
  std::multimap<std::string, std::string> trailers;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest();
  ~ServerTest() override;

  void StartServer();
  void StartReadyServer();

  static v1::GenerateRequest TextRequest(const std::string& text, uint32_t max_tokens);
  static v1::GenerateRequest IdRequest(const std::vector<TokenId>& ids, uint32_t max_tokens);
  Answer Generate(const v1::GenerateRequest& request, absl::Duration deadline = absl::Minutes(1));
  // Reads a stream to its end. `answer` gets what comes.
  static void ReadAll(grpc::ClientReader<v1::GenerateResponse>* reader, Answer* answer);

  // What the fake model says to the request, given its seed.
  std::vector<TokenId> Expected(const v1::GenerateRequest& request, uint64_t seed) const;
  v1::GetStateResponse State();
  // Waits until nothing is held, queued or in flight.
  void ExpectAllFree();

  SchedulerFlags flags_;
  std::shared_ptr<FakeWorkerControl> worker_ = std::make_shared<FakeWorkerControl>();
  std::unique_ptr<SchedulerServer> server_;
  std::unique_ptr<v1::Generation::Stub> stub_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

// Waits for `condition`, at most a minute.
template <typename F>
bool Eventually(F condition) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

}  // namespace octavo

#endif  // OCTAVO_TESTS_SCHEDULER_TRANSPORT_SERVER_FIXTURE_H_
