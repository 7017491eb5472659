// SmolLM2 on the emulated device against the CPU backend, both with bf16 products and cache.
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/worker/model/greedy_driver.h"
#include "tests/worker/model/loaded_model.h"
#include "tests/worker/runtime/tiny_plans.h"
#include "worker/cuda/cuda_backend.h"
#include "worker/model/weights.h"
#include "worker/runtime/make_device.h"
#include "worker/runtime/model_runner.h"

namespace octavo {
namespace {

// Both round the same inputs of products to bf16. Sums differ in order, and the device's attention
// rounds softmax weights to bf16, 2^-9 of each; over 30 layers some 1 % of a logit's spread.
constexpr double kLogprobTolerance = 0.1;
// Below this difference of the two best the backends may disagree.
constexpr double kFirmMargin = 0.4;

LoadedModel Load(const DeviceOptions& options) {
  LoadedModel loaded;
  loaded.checkpoint = *Checkpoint::Open(RealModelPath());
  auto backend = MakeDevice(options, *loaded.checkpoint);
  EXPECT_TRUE(backend.ok()) << backend.status();
  loaded.backend = *std::move(backend);
  auto model = LoadModel(*loaded.checkpoint, *loaded.backend, nullptr);
  EXPECT_TRUE(model.ok()) << model.status();
  loaded.model = *std::move(model);
  return loaded;
}

std::vector<GreedyPrompt> Prompts() {
  std::ifstream file(TestDataPath("reference/greedy.jsonl"));
  std::vector<GreedyPrompt> prompts;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    if (json["name"] != "en-capital" && json["name"] != "list-planets" &&
        json["name"] != "chat-hello")
      continue;
    prompts.push_back({json["prompt_ids"].get<std::vector<TokenId>>(), 10});
  }
  EXPECT_EQ(prompts.size(), 3u);
  return prompts;
}

struct Tolerance {
  double logprob = kLogprobTolerance;
  double firm_margin = kFirmMargin;
};

// Steps compared.
int ExpectAgree(const std::vector<SampledToken>& reference, const std::vector<SampledToken>& got,
                const Tolerance& tolerance = {}) {
  for (size_t step = 0; step < reference.size(); ++step) {
    const std::vector<TokenLogprob>& top = reference[step].top;
    if (got[step].token != reference[step].token) {
      EXPECT_LT(top[0].logprob - top[1].logprob, tolerance.firm_margin) << "step " << step;
      return static_cast<int>(step);
    }
    EXPECT_NEAR(got[step].logprob, reference[step].logprob, tolerance.logprob) << "step " << step;
  }
  return static_cast<int>(reference.size());
}

TEST(CudaModel, AgreesWithTheCpuInChunksAndBatches) {
  DeviceOptions cuda;
  cuda.backend = "cuda";
  const LoadedModel device = Load(cuda);
  EXPECT_EQ(device.backend->numeric_path(), "cuda/bf16");
  DeviceOptions cpu;
  cpu.dtype = "bfloat16";
  cpu.threads = 1;
  const LoadedModel host = Load(cpu);

  const std::vector<GreedyPrompt> prompts = Prompts();
  for (const DType kv_dtype : {DType::kBF16, DType::kI8}) {
    SCOPED_TRACE(std::string(Info(kv_dtype).name));
    GreedyOptions options;
    options.kv_dtype = kv_dtype;
    const auto reference = RunGreedy(host, prompts, options);
    options.chunk = 7;  // chunks and decodes in one batch
    const auto got = RunGreedy(device, prompts, options);
    int steps = 0;
    for (size_t i = 0; i < prompts.size(); ++i) {
      SCOPED_TRACE(i);
      steps += ExpectAgree(reference[i], got[i]);
    }
    EXPECT_GE(steps, 15);
  }
}

// Exact codes times bf16 rows: what differs from the CPU is the order of sums, as above.
TEST(CudaModel, AgreesWithTheCpuOnWeightsOfFourBits) {
  DeviceOptions cuda;
  cuda.backend = "cuda";
  cuda.weight_format = "stored";
  const LoadedModel device = Load(cuda);
  DeviceOptions cpu;
  cpu.dtype = "bfloat16";
  cpu.threads = 1;
  const LoadedModel host = Load(cpu);
  EXPECT_LT(
      device.model->layers[0].down->bytes(),
      device.model->layers[0].down->in_features() * device.model->layers[0].down->out_features());

  std::vector<GreedyPrompt> prompts = {Prompts()[0]};
  prompts[0].max_new_tokens = 4;
  GreedyOptions options;
  options.kv_dtype = DType::kBF16;
  const auto reference = RunGreedy(host, prompts, options);
  EXPECT_GE(ExpectAgree(reference[0], RunGreedy(device, prompts, options)[0]), 3);
}

// fp16 rounds less than the CPU's bf16 does, so what holds for bf16 holds here. Of e4m3 each factor
// of a product has 4 significant bits, where a logit's spread leaves some hundredths: over three
// prompts of 10 tokens, tokens parted at margins of 0.2 only, and their log-probabilities differed
// by 0.46 at most, 0.06 in the median.
TEST(CudaModel, AgreesWithTheCpuInFp16AndFp8) {
  DeviceOptions cpu;
  cpu.dtype = "bfloat16";
  cpu.threads = 1;
  const LoadedModel host = Load(cpu);
  std::vector<GreedyPrompt> prompts = {Prompts()[1]};
  prompts[0].max_new_tokens = 6;
  GreedyOptions options;
  options.kv_dtype = DType::kBF16;
  const auto reference = RunGreedy(host, prompts, options);
  DeviceOptions fp16, fp8;
  fp16.backend = fp8.backend = "cuda";
  fp16.dtype = "float16";
  fp8.weight_format = "fp8";
  {
    const LoadedModel device = Load(fp16);
    EXPECT_EQ(device.backend->numeric_path(), "cuda/fp16");
    EXPECT_EQ(ExpectAgree(reference[0], RunGreedy(device, prompts, options)[0]), 6);
  }
  const LoadedModel device = Load(fp8);
  EXPECT_EQ(device.backend->numeric_path(), "cuda/bf16/fp8");
  const LinearWeight& down = *device.model->layers[0].down;
  EXPECT_EQ(down.bytes(), (down.in_features() + 4) * down.out_features());
  EXPECT_EQ(device.model->head->bytes(),
            2 * device.model->head->in_features() * device.model->head->out_features());
  EXPECT_EQ(ExpectAgree(reference[0], RunGreedy(device, prompts, options)[0],
                        {.logprob = 0.5, .firm_margin = 1.0}),
            6);
}

// Recorded steps read what changes from the device: the tokens of equal runs are equal bit for bit.
TEST(CudaModel, ReplayedStepsEqualLaunchedOnes) {
  const auto checkpoint = *Checkpoint::Open(RealModelPath());
  std::vector<std::vector<std::vector<SampledToken>>> runs;
  for (const bool graphs : {false, true}) {
    LoadedModel loaded;
    auto backend = cuda::CudaBackend::Create({.device = 0, .graphs = graphs});
    ASSERT_TRUE(backend.ok()) << backend.status();
    const cuda::CudaBackend& device = **backend;
    loaded.backend = *std::move(backend);
    loaded.model = *LoadModel(*checkpoint, *loaded.backend, nullptr);
    GreedyOptions options;
    options.kv_dtype = DType::kBF16;
    runs.push_back(RunGreedy(loaded, Prompts(), options));
    // One of the trial of the largest step, and 9 decodes less the first two.
    EXPECT_EQ(device.num_replayed_steps(), graphs ? 1 + 7 : 0);
    loaded.model.reset();
  }
  EXPECT_EQ(runs[0], runs[1]);
}

// A step's tokens go to the next one on the device, and a sequence may be dropped while the step
// that samples it runs.
TEST(CudaModel, TwoStepsInFlightGiveTheTokensOfOne) {
  DeviceOptions cuda;
  cuda.backend = "cuda";
  const LoadedModel loaded = Load(cuda);
  constexpr StepId kSteps = 7;
  std::vector<StepPlan> plans;
  for (StepId step = 1; step <= kSteps; ++step) {
    plans.push_back(step == 1 ? PrefillPlan(1) : NextTokenPlan(1, step));
    StepPlan other =
        step == 1 ? PrefillPlan(1, 1, /*sequence=*/9, /*block=*/3) : NextTokenPlan(1, step);
    other.slices[0].sequence = 9;
    if (step == 1) other.slices[0].tokens = {400, 500, 600};
    if (step < 5) plans.back().slices.push_back(other.slices[0]);
    if (step == 5) plans.back().dropped = {9};
  }
  WorkerConfig config = TinyConfig(1);
  config.kv_dtype = DType::kBF16;
  config.block_size = 16;
  std::vector<std::vector<SampledToken>> runs(2);
  for (const size_t ahead : {0, 1}) {
    ModelRunner runner(*loaded.backend, *loaded.model, {});
    ASSERT_TRUE(runner.Configure(config).ok());
    const auto finish = [&] {
      const absl::StatusOr<StepResult> result = runner.Finish();
      ASSERT_TRUE(result.ok()) << result.status();
      runs[ahead].insert(runs[ahead].end(), result->samples.begin(), result->samples.end());
    };
    for (const StepPlan& plan : plans) {
      ASSERT_TRUE(runner.RunsAhead(plan));
      const absl::Status begun = runner.Begin(plan);
      ASSERT_TRUE(begun.ok()) << begun;
      if (runner.num_begun() > ahead) finish();
    }
    while (runner.num_begun() > 0) finish();
    // One that is forgotten with a step in flight ends it.
    ASSERT_TRUE(runner.Begin(NextTokenPlan(1, kSteps + 1)).ok());
    runner.Forget();
  }
  EXPECT_EQ(runs[0].size(), kSteps + 4);
  EXPECT_EQ(runs[0], runs[1]);
}

}  // namespace
}  // namespace octavo
