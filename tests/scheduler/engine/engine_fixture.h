// An engine over fake workers, and a client that collects what its streams say.
#ifndef OCTAVO_TESTS_SCHEDULER_ENGINE_ENGINE_FIXTURE_H_
#define OCTAVO_TESTS_SCHEDULER_ENGINE_ENGINE_FIXTURE_H_

#include <memory>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "scheduler/engine/engine_loop.h"
#include "tests/fakes/fake_executor.h"

namespace octavo {

// Reads one stream as it fills. Thread-safe.
class StreamReader {
 public:
  explicit StreamReader(int32_t max_tokens, int32_t choices = 1);

  const std::shared_ptr<TokenStream>& stream() const { return stream_; }
  // Waits for the end; the test fails when there is none within a minute.
  absl::Status AwaitEnd();
  bool AwaitTokens(size_t count, absl::Duration timeout = absl::Minutes(1));
  bool AwaitAdmitted();
  std::vector<TokenId> tokens();
  TokenEvent last();
  bool ended();
  StreamTimes times();

 private:
  struct State {
    absl::Mutex mutex;
    bool admitted = false;
    std::vector<TokenId> tokens;
    TokenEvent last;
    StreamTimes times;
    std::optional<absl::Status> end;
  };
  static void Drain(State* state, TokenStream* stream);

  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::shared_ptr<TokenStream> stream_;
};

class EngineTest : public ::testing::Test {
 protected:
  EngineTest();

  // Makes the group one of two ranks, with one KV head each.
  void AddSecondRank();
  // With one fake worker per control.
  void StartEngine();
  void AwaitReady();
  // A prompt of `length` tokens that differs by `salt`.
  static Request MakeRequest(int32_t length, int32_t max_tokens, int32_t salt = 0);
  // Submits and expects acceptance.
  std::unique_ptr<StreamReader> Submit(const Request& request, RequestId* id = nullptr);
  // Waits until nothing is held, queued or in flight.
  void ExpectAllFree();
  // What the fake model generates for the request.
  std::vector<TokenId> Expected(const Request& request) const;

  EngineOptions options_;
  std::vector<std::shared_ptr<FakeWorkerControl>> workers_;
  std::unique_ptr<EngineLoop> engine_;
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

#endif  // OCTAVO_TESTS_SCHEDULER_ENGINE_ENGINE_FIXTURE_H_
