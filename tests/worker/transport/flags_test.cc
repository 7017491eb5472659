#include "worker/transport/flags.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace octavo {
namespace {

WorkerFlags Parse(std::vector<std::string> arguments, bool embedded = false) {
  CLI::App app;
  WorkerFlags flags;
  AddWorkerFlags(app, &flags, embedded);
  std::reverse(arguments.begin(), arguments.end());
  app.parse(arguments);
  return flags;
}

TEST(WorkerFlags, HaveTheirDefaults) {
  const WorkerFlags flags = Parse({"--model", "m.gguf"});
  EXPECT_EQ(flags.model_path, "m.gguf");
  EXPECT_EQ(flags.listen, "127.0.0.1:50061");
  EXPECT_EQ(flags.device.backend, "cpu");
  EXPECT_EQ(flags.device.index, 0);
  EXPECT_EQ(flags.device.threads, 0);
  EXPECT_EQ(flags.device.dtype, "auto");
  EXPECT_FALSE(flags.device.deterministic);
  EXPECT_FALSE(flags.memory.utilization.has_value());
  EXPECT_EQ(flags.memory.kv_cache_bytes, 0);
  EXPECT_EQ(flags.memory.swap_bytes, -1);
}

TEST(WorkerFlags, ReachTheExecutor) {
  const std::vector<std::string> device = {
      "--backend", "cuda", "--device", "1", "--threads", "3", "--isa", "avx2", "--deterministic"};
  const std::vector<std::string> memory = {"--kv-cache-memory-bytes", "512MiB", "--swap-space",
                                           "0"};
  std::vector<std::string> arguments = {"--model",
                                        "m",
                                        "--dtype",
                                        "bfloat16",
                                        "--gpu-memory-utilization",
                                        "0.5",
                                        "--num-gpu-blocks-override",
                                        "400"};
  arguments.insert(arguments.end(), device.begin(), device.end());
  arguments.insert(arguments.end(), memory.begin(), memory.end());
  const LocalExecutorOptions options = ExecutorOptions(Parse(arguments), "here");
  EXPECT_EQ(options.name, "here");
  EXPECT_EQ(options.model_path, "m");
  EXPECT_EQ(options.device.backend, "cuda");
  EXPECT_EQ(options.device.index, 1);
  EXPECT_EQ(options.device.threads, 3);
  EXPECT_EQ(options.device.dtype, "bfloat16");
  EXPECT_EQ(options.device.isa, "avx2");
  EXPECT_TRUE(options.device.deterministic);
  EXPECT_EQ(options.memory.utilization, 0.5);
  EXPECT_EQ(options.memory.kv_cache_bytes, 512 << 20);
  EXPECT_EQ(options.memory.num_blocks, 400);
  EXPECT_EQ(options.memory.swap_bytes, 0);
}

TEST(WorkerFlags, PlaceTheWorkerInItsGroup) {
  const LocalExecutorOptions options = ExecutorOptions(
      Parse({"--model", "m", "--tensor-parallel-size", "3", "--tensor-parallel-rank", "2",
             "--communicator-interface", "eth0", "--communicator-timeout", "1.5"}),
      "here");
  EXPECT_EQ(options.communication.place.size, 3);
  EXPECT_EQ(options.communication.place.rank, 2);
  EXPECT_EQ(options.communication.interface, "eth0");
  EXPECT_EQ(options.communication.timeout, absl::Milliseconds(1500));
  const LocalExecutorOptions alone = ExecutorOptions(Parse({"--model", "m"}), "here");
  EXPECT_EQ(alone.communication.place.size, 1);
  EXPECT_EQ(alone.communication.interface, "lo");
}

TEST(WorkerFlags, RefuseValuesOutOfRange) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--dtype", "int4"},
                                                    {"--threads", "-1"},
                                                    {"--gpu-memory-utilization", "1.5"},
                                                    {"--kv-cache-memory-bytes", "lots"},
                                                    {"--num-gpu-blocks-override", "0"},
                                                    {"--isa", "mmx"},
                                                    {"--tensor-parallel-size", "65"},
                                                    {"--communicator-timeout", "0"},
                                                    {"--backend", "tpu"},
                                                    {"--device", "-1"}})
    EXPECT_THROW(Parse(arguments), CLI::ParseError) << arguments[0];
}

TEST(WorkerFlags, EmbeddedLeaveOutWhatTheProgramHasAlready) {
  EXPECT_THROW(Parse({"--model", "m"}, /*embedded=*/true), CLI::ParseError);
  EXPECT_THROW(Parse({"--listen", "h:1"}, /*embedded=*/true), CLI::ParseError);
  EXPECT_EQ(Parse({"--threads", "2"}, /*embedded=*/true).device.threads, 2);
  CLI::App app;
  int64_t blocks = 0;
  app.add_option("--num-gpu-blocks-override", blocks);
  WorkerFlags flags;
  AddWorkerFlags(app, &flags, /*embedded=*/true);
  app.parse("--num-gpu-blocks-override 7");
  EXPECT_EQ(blocks, 7);
}

}  // namespace
}  // namespace octavo
