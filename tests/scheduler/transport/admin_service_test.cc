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
