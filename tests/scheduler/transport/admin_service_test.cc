#include "scheduler/transport/admin_service.h"

#include <fstream>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler/transport/server_fixture.h"

namespace octavo {
namespace {

using AdminTest = ServerTest;

TEST_F(AdminTest, StateHasBlocksCapacityQueuesAndWorkers) {
  StartReadyServer();
  ASSERT_TRUE(Generate(IdRequest({1, 2, 3}, 21)).status.ok());
  ExpectAllFree();
  const v1::GetStateResponse state = State();
  EXPECT_EQ(state.state(), v1::ENGINE_STATE_READY);
  EXPECT_EQ(state.model(), "hash");
  EXPECT_EQ(state.blocks().total(), 100u);
  EXPECT_EQ(state.capacity().bytes_per_token(), 128u);
  EXPECT_EQ(state.capacity().bytes_per_token_formula(),
            "2 x 2 layers x 2 kv_heads x 8 head_dim x 2 bytes = 128 bytes");
  EXPECT_EQ(state.capacity().block_size(), 8u);
  EXPECT_EQ(state.capacity().total_tokens(), 800u);
  EXPECT_DOUBLE_EQ(state.capacity().max_concurrency(), 100.0 / 32);
  EXPECT_TRUE(state.capacity().mean_is_measured());
  EXPECT_DOUBLE_EQ(state.capacity().mean_tokens(), 24);
  EXPECT_EQ(state.generated_tokens(), 21u);
  EXPECT_EQ(state.prompt_tokens(), 3u);
  EXPECT_GT(state.steps(), 0u);
  EXPECT_GT(state.schedule_seconds_p50(), 0);
  EXPECT_GT(state.uptime_seconds(), 0);
  ASSERT_EQ(state.workers_size(), 1);
  EXPECT_EQ(state.workers(0).name(), "fake");
  EXPECT_TRUE(state.workers(0).connected());
  EXPECT_EQ(state.workers(0).load_done_bytes(), 1000u);
}

TEST_F(AdminTest, AFlushForgetsTheCacheAndTheStateShowsIt) {
  StartReadyServer();
  std::vector<TokenId> prompt(40, 5);
  ASSERT_TRUE(Generate(IdRequest(prompt, 2)).status.ok());
  ASSERT_EQ(Generate(IdRequest(prompt, 2)).usage.cached_tokens(), 32u);
  ExpectAllFree();
  EXPECT_EQ(State().blocks().cached(), 5u);
  EXPECT_EQ(State().prefix_cache().query_tokens(), 80u);
  EXPECT_EQ(State().prefix_cache().hit_tokens(), 32u);
  EXPECT_TRUE(State().prefix_cache().enabled());
  grpc::ClientContext context;
  v1::FlushPrefixCacheResponse flushed;
  ASSERT_TRUE(admin_->FlushPrefixCache(&context, {}, &flushed).ok());
  EXPECT_EQ(flushed.blocks(), 5u);
  EXPECT_EQ(State().blocks().cached(), 0u);
  EXPECT_EQ(State().prefix_cache().flushes(), 1u);
  EXPECT_EQ(Generate(IdRequest(prompt, 2)).usage.cached_tokens(), 0u);
}

TEST_F(AdminTest, RequestsTellWhatTheyHoldAndWhyTheyWait) {
  flags_.max_num_seqs = 2;
  StartReadyServer();
  worker_->SetHeld(true);
  v1::GenerateRequest wide = IdRequest({1, 2, 3, 4, 5}, 20);
  wide.mutable_sampling()->set_n(2);
  wide.set_request_id("wide");
  v1::GenerateRequest narrow = IdRequest({9, 8, 7}, 20);
  narrow.set_request_id("narrow");
  grpc::ClientContext contexts[2];
  const auto first = stub_->Generate(&contexts[0], wide);
  ASSERT_TRUE(Eventually([&] { return State().running() == 1; }));
  const auto second = stub_->Generate(&contexts[1], narrow);
  ASSERT_TRUE(Eventually([&] { return State().waiting() == 1; }));

  grpc::ClientContext list;
  v1::ListRequestsResponse listed;
  ASSERT_TRUE(admin_->ListRequests(&list, {}, &listed).ok());
  ASSERT_EQ(listed.requests_size(), 2);
  EXPECT_EQ(listed.total(), 2u);
  EXPECT_EQ(listed.requests(0).request_id(), "wide");
  EXPECT_TRUE(listed.requests(0).running());
  EXPECT_EQ(listed.requests(0).choices(), 2u);
  EXPECT_EQ(listed.requests(1).request_id(), "narrow");
  EXPECT_FALSE(listed.requests(1).running());

  grpc::ClientContext explain;
  v1::ExplainRequestRequest which;
  which.set_request_id("narrow");
  v1::ExplainRequestResponse explained;
  ASSERT_TRUE(admin_->ExplainRequest(&explain, which, &explained).ok());
  EXPECT_EQ(explained.reason(), v1::WAIT_REASON_SEQUENCES);
  EXPECT_EQ(explained.text(),
            "it needs 1 of the 2 sequences that run at once (--max-num-seqs); 2 are taken");

  grpc::ClientContext table;
  v1::GetBlockTableRequest of;
  of.set_request_id("wide");
  v1::GetBlockTableResponse held;
  ASSERT_TRUE(admin_->GetBlockTable(&table, of, &held).ok());
  EXPECT_EQ(held.block_size(), 8u);
  ASSERT_EQ(held.choices_size(), 2);
  worker_->SetHeld(false);
  v1::GenerateResponse message;
  while (first->Read(&message)) {
  }
  while (second->Read(&message)) {
  }
  EXPECT_TRUE(first->Finish().ok());
  EXPECT_TRUE(second->Finish().ok());
  ExpectAllFree();

  grpc::ClientContext gone;
  EXPECT_EQ(admin_->ExplainRequest(&gone, which, &explained).error_code(),
            grpc::StatusCode::NOT_FOUND);
  grpc::ClientContext empty;
  EXPECT_EQ(admin_->GetBlockTable(&empty, {}, &held).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(AdminTest, QuestionsBeforeTheWorkersAreReadyAreUnavailable) {
  worker_->SetUnreachable(true);
  StartServer();
  grpc::ClientContext context;
  v1::FlushPrefixCacheResponse flushed;
  EXPECT_EQ(admin_->FlushPrefixCache(&context, {}, &flushed).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(AdminTest, TrafficHasTheLengthsOfEndedRequests) {
  StartReadyServer();
  ASSERT_TRUE(Generate(IdRequest({1, 2, 3}, 21)).status.ok());
  ASSERT_TRUE(Generate(IdRequest({1, 2, 3, 4}, 2)).status.ok());
  grpc::ClientContext context;
  v1::GetTrafficResponse traffic;
  ASSERT_TRUE(admin_->GetTraffic(&context, v1::GetTrafficRequest(), &traffic).ok());
  EXPECT_EQ(traffic.model(), "hash");
  EXPECT_EQ(traffic.arrivals(), 2u);
  EXPECT_GT(traffic.requests_per_second(), 0);
  ASSERT_EQ(traffic.prompt_tokens_size(), 4);
  EXPECT_EQ(traffic.prompt_tokens(2).up_to(), 3u);
  EXPECT_EQ(traffic.prompt_tokens(2).count(), 1u);
  EXPECT_EQ(traffic.prompt_tokens(3).count(), 1u);
  // 3 + 21 and 4 + 2: the bucket of 23 and 24, and that of 6.
  EXPECT_EQ(traffic.total_tokens(5).count(), 1u);
  const v1::LengthBucket& longest = traffic.total_tokens(traffic.total_tokens_size() - 1);
  EXPECT_EQ(longest.up_to(), 24u);
  EXPECT_EQ(longest.count(), 1u);
}

TEST_F(AdminTest, ThePortFileNamesBothListeners) {
  flags_.port_file = ::testing::TempDir() + "/octavo_port_file";
  StartReadyServer();
  std::ifstream file(flags_.port_file);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(),
            "grpc=" + server_->address() + "\nmetrics=" + server_->metrics_address() + "\n");
}

}  // namespace
}  // namespace octavo
