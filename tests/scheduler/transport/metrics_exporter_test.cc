#include "scheduler/transport/metrics_exporter.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <regex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/metric_family.h"
#include "prometheus/metric_type.h"
#include "tests/scheduler/transport/server_fixture.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

std::string HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return "";
  const std::string request = absl::StrCat("GET ", path, " HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string page;
  char buffer[4096];
  for (ssize_t got; (got = read(fd, buffer, sizeof(buffer))) > 0;) page.append(buffer, got);
  close(fd);
  return page;
}

class MetricsTest : public ServerTest {
 protected:
  std::string Scrape() {
    const std::string address = server_->metrics_address();
    return HttpGet(std::stoi(address.substr(address.rfind(':') + 1)), "/metrics");
  }
};

TEST_F(MetricsTest, ThePageHasEverySeriesFromTheStart) {
  worker_->SetUnreachable(true);
  StartServer();
  const std::string page = Scrape();
  for (const char* series :
       {"octavo_build_info{version=\"",
        "octavo_engine_state{state=\"connecting\"} 1",
        "octavo_worker_up{worker=\"rank-0\"} 0",
        "octavo_kv_blocks{state=\"free\"} 0",
        "octavo_kv_blocks{state=\"cached\"} 0",
        "octavo_kv_blocks{state=\"active\"} 0",
        "octavo_preemptions_total{mode=\"recompute\",reason=\"no_free_blocks\"} 0",
        "octavo_preemptions_total{mode=\"recompute\",reason=\"worker_reset\"} 0",
        "octavo_preemptions_total{mode=\"swap\",reason=\"no_free_blocks\"} 0",
        "octavo_preempted_tokens_total 0",
        "octavo_swapped_bytes_total{direction=\"out\"} 0",
        "octavo_swapped_bytes_total{direction=\"in\"} 0",
        "octavo_swap_blocks{state=\"free\"} 0",
        "octavo_swap_drops_total 0",
        "octavo_requests{state=\"running\"} 0",
        "octavo_requests{state=\"waiting\"} 0",
        "octavo_requests{state=\"preempted\"} 0",
        "octavo_kv_usage_ratio 0",
        "octavo_kv_shared_blocks 0",
        "octavo_kv_saved_blocks 0",
        "octavo_kv_waste_slots 0",
        "octavo_kv_saved_blocks_total 0",
        "octavo_kv_copies_on_write_total 0",
        "octavo_prefix_cache_query_tokens_total 0",
        "octavo_prefix_cache_hit_tokens_total 0",
        "octavo_prefix_cache_recovered_tokens_total 0",
        "octavo_prefix_cache_evictions_total 0",
        "octavo_prefix_cache_flushes_total 0",
        "octavo_prefix_cache_waits_total 0",
        "vllm:num_requests_running{model_name=\"hash\",engine=\"0\"} 0",
        "vllm:num_requests_waiting{model_name=\"hash\",engine=\"0\"} 0",
        "vllm:kv_cache_usage_perc{model_name=\"hash\",engine=\"0\"} 0",
        "vllm:prefix_cache_queries_total{model_name=\"hash\",engine=\"0\"} 0",
        "vllm:prefix_cache_hits_total{model_name=\"hash\",engine=\"0\"} 0",
        "vllm:num_preemptions_total{model_name=\"hash\",engine=\"0\"} 0",
        "vllm:request_success_total{finished_reason=\"stop\",model_name=\"hash\",engine=\"0\"} 0",
        "octavo_requests_finished_total{reason=\"stop\"} 0",
        "octavo_requests_finished_total{reason=\"error\"} 0",
        "octavo_tokens_total{kind=\"prompt\"} 0",
        "octavo_tokens_total{kind=\"generated\"} 0",
        "octavo_step_seconds_bucket{phase=\"worker\",le=\"+Inf\"} 0",
        "octavo_step_seconds_count{phase=\"schedule\"} 0",
        "octavo_time_to_first_token_seconds_count 0",
        "octavo_inter_token_latency_seconds_count 0",
        "octavo_request_queue_time_seconds_count 0",
        "octavo_e2e_request_latency_seconds_count 0"})
    EXPECT_THAT(page, HasSubstr(series));
}

TEST_F(MetricsTest, NumbersFollowTheEngine) {
  StartReadyServer();
  ASSERT_TRUE(Generate(IdRequest({1, 2, 3}, 21)).status.ok());
  ExpectAllFree();
  const std::string page = Scrape();
  EXPECT_THAT(page, HasSubstr("octavo_requests_finished_total{reason=\"length\"} 1"));
  EXPECT_THAT(page, HasSubstr("octavo_tokens_total{kind=\"generated\"} 21"));
  EXPECT_THAT(page, HasSubstr("octavo_tokens_total{kind=\"prompt\"} 3"));
  EXPECT_THAT(page, HasSubstr("octavo_kv_bytes_per_token 128"));
  EXPECT_THAT(page, HasSubstr("octavo_kv_block_size_tokens 8"));
  EXPECT_THAT(page, HasSubstr("octavo_kv_max_concurrency{length=\"max_model_len\"} 3.125"));
  EXPECT_THAT(page, HasSubstr("octavo_worker_up{worker=\"fake\"} 1"));
  EXPECT_THAT(page, HasSubstr("octavo_time_to_first_token_seconds_count 1"));
  EXPECT_THAT(page, HasSubstr("octavo_inter_token_latency_seconds_count 20"));
  EXPECT_THAT(page, HasSubstr("octavo_engine_state{state=\"ready\"} 1"));
  EXPECT_THAT(page, HasSubstr("vllm:cache_config_info{block_size=\"8\",num_gpu_blocks=\"100\","
                              "cache_dtype=\"bf16\",enable_prefix_caching=\"True\","));
  EXPECT_THAT(page, HasSubstr("vllm:prompt_tokens_total{model_name=\"hash\",engine=\"0\"} 3"));
  EXPECT_THAT(page, HasSubstr("vllm:generation_tokens_total{model_name=\"hash\",engine=\"0\"} 21"));
}

// The rules that `promtool check metrics` has for names and help.
TEST_F(MetricsTest, NamesFollowPrometheusConventions) {
  StartReadyServer();
  std::set<std::string> seen;
  for (const auto& family : EngineMetrics(server_->engine().snapshot(), "hash")) {
    EXPECT_TRUE(seen.insert(family.name).second) << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_TRUE(std::regex_match(family.name, std::regex("(octavo_|vllm:)[a-z0-9_]+")))
        << family.name;
    const bool total = absl::EndsWith(family.name, "_total");
    EXPECT_EQ(family.type == prometheus::MetricType::Counter, total) << family.name;
    for (const char* reserved : {"_count", "_sum", "_bucket"})
      EXPECT_FALSE(absl::EndsWith(family.name, reserved)) << family.name;
    for (const char* unit : {"milliseconds", "_ms", "kilobytes", "minutes", "_percent"})
      EXPECT_FALSE(absl::StrContains(family.name, unit)) << family.name;
  }
}

}  // namespace
}  // namespace octavo
