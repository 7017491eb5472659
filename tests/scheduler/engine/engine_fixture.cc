#include "tests/scheduler/engine/engine_fixture.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/fakes/fake_model.h"

namespace octavo {

StreamReader::StreamReader(int32_t max_tokens, int32_t choices) {
  // The stream owns the callback, so the callback must not own the stream.
  auto weak = std::make_shared<std::weak_ptr<TokenStream>>();
  stream_ = std::make_shared<TokenStream>(max_tokens, choices, [state = state_, weak] {
    if (const auto stream = weak->lock()) Drain(state.get(), stream.get());
  });
  *weak = stream_;
}

void StreamReader::Drain(State* state, TokenStream* stream) {
  absl::MutexLock lock(&state->mutex);
  TokenStream::Batch batch = stream->Take();
  state->admitted |= batch.admitted;
  state->times = batch.times;
  for (TokenEvent& event : batch.tokens) {
    if (event.token.has_value()) state->tokens.push_back(*event.token);
    state->last = std::move(event);
  }
  if (batch.end.has_value()) state->end = std::move(batch.end);
}

absl::Status StreamReader::AwaitEnd() {
  absl::MutexLock lock(&state_->mutex);
  const auto ended = [this] { return state_->end.has_value(); };
  if (!state_->mutex.AwaitWithTimeout(absl::Condition(&ended), absl::Minutes(1))) {
    ADD_FAILURE() << "no end after " << state_->tokens.size() << " tokens";
    return absl::DeadlineExceededError("no end");
  }
  return *state_->end;
}

bool StreamReader::AwaitTokens(size_t count, absl::Duration timeout) {
  absl::MutexLock lock(&state_->mutex);
  const auto enough = [this, count] { return state_->tokens.size() >= count; };
  return state_->mutex.AwaitWithTimeout(absl::Condition(&enough), timeout);
}

bool StreamReader::AwaitAdmitted() {
  absl::MutexLock lock(&state_->mutex);
  return state_->mutex.AwaitWithTimeout(absl::Condition(&state_->admitted), absl::Minutes(1));
}

std::vector<TokenId> StreamReader::tokens() {
  absl::MutexLock lock(&state_->mutex);
  return state_->tokens;
}

TokenEvent StreamReader::last() {
  absl::MutexLock lock(&state_->mutex);
  return state_->last;
}

bool StreamReader::ended() {
  absl::MutexLock lock(&state_->mutex);
  return state_->end.has_value();
}

StreamTimes StreamReader::times() {
  absl::MutexLock lock(&state_->mutex);
  return state_->times;
}

EngineTest::EngineTest() {
  workers_.push_back(std::make_shared<FakeWorkerControl>());
  workers_[0]->description = FakeDescription();
  const WorkerDescription model = FakeDescription();
  options_.scheduler = {.block_size = 8,
                        .vocab_size = model.vocab_size,
                        .max_model_len = 256,
                        .max_num_seqs = 32,
                        .max_num_batched_tokens = 64,
                        .max_queued_requests = 1000};
  options_.group.model = {
      .digest = model.model_digest, .kv_shape = model.kv_shape, .vocab_size = model.vocab_size};
  options_.group.config = {
      .block_size = 8, .max_model_len = 256, .max_num_seqs = 32, .max_num_batched_tokens = 64};
  options_.group.first_retry = absl::Milliseconds(2);
  options_.group.longest_retry = absl::Milliseconds(10);
}

void EngineTest::AddSecondRank() {
  workers_.push_back(std::make_shared<FakeWorkerControl>());
  for (int32_t rank = 0; rank < 2; ++rank) {
    WorkerDescription& description = workers_[static_cast<size_t>(rank)]->description;
    description = FakeDescription();
    description.name = absl::StrCat("fake-", rank);
    description.rank = rank;
    description.world_size = 2;
    description.kv_shape.num_kv_heads = 1;
  }
}

void EngineTest::StartEngine() {
  std::vector<std::unique_ptr<Executor>> executors;
  for (const auto& worker : workers_) executors.push_back(std::make_unique<FakeExecutor>(worker));
  engine_ = std::make_unique<EngineLoop>(options_, std::move(executors));
  engine_->Start();
}

void EngineTest::AwaitReady() {
  ASSERT_TRUE(Eventually([this] { return engine_->snapshot().state == EngineState::kReady; }))
      << Name(engine_->snapshot().state) << " " << engine_->snapshot().failure;
}

Request EngineTest::MakeRequest(int32_t length, int32_t max_tokens, int32_t salt) {
  Request request;
  for (int32_t i = 0; i < length; ++i) request.prompt.push_back((i * 7 + salt * 13 + 1) % 64);
  request.max_tokens = max_tokens;
  request.sampling.seed = static_cast<uint64_t>(salt);
  return request;
}

std::unique_ptr<StreamReader> EngineTest::Submit(const Request& request, RequestId* id) {
  auto reader = std::make_unique<StreamReader>(request.max_tokens, request.n);
  const absl::StatusOr<RequestId> submitted = engine_->Submit(request, reader->stream());
  EXPECT_TRUE(submitted.ok()) << submitted.status();
  if (id != nullptr && submitted.ok()) *id = *submitted;
  return reader;
}

void EngineTest::ExpectAllFree() {
  EXPECT_TRUE(Eventually([this] {
    const EngineSnapshot now = engine_->snapshot();
    return now.live_streams == 0 && now.stats.active_blocks == 0 &&
           now.stats.steps_in_flight == 0 &&
           now.stats.free_blocks + now.stats.cached_blocks == now.stats.num_blocks;
  })) << "active blocks "
      << engine_->snapshot().stats.active_blocks << ", live streams "
      << engine_->snapshot().live_streams;
}

std::vector<TokenId> EngineTest::Expected(const Request& request) const {
  return Evaluate(request, options_.scheduler.vocab_size).tokens;
}

}  // namespace octavo
