// Every barrier of the row kernels and of sampling is needed: with one left out, the race build
// says so, or the result is wrong.
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/emulation/child_process.h"
#include "tests/emulation/emulation.h"
#include "tests/worker/cuda/kernels/kernel_testing.h"
#include "worker/cpu/sample.h"
#include "worker/cuda/kernels/gate.h"
#include "worker/cuda/kernels/norm.h"
#include "worker/cuda/kernels/rope_kv_write.h"
#include "worker/cuda/kernels/sampling.h"
#include "worker/cuda/row_sampling.h"

namespace octavo::cuda {
namespace {

constexpr char kMissed[] = "missed";

std::string RunNorm() {
  const DeviceStream stream;
  const DeviceArray<float> x(NormalFloats(1000, 1, 1)), weight(NormalFloats(1000, 1, 2));
  const DeviceArray<uint16_t> out(size_t{1000});
  RmsNormArgs args = {x.data(), 1000, nullptr, weight.data(), 1e-5f, out.data(), 1000, 1, 1000};
  const std::string error = Finish(stream, LaunchRmsNorm(args, stream));
  return error.empty() ? kMissed : error;
}

std::string RunAddNormed() {
  const DeviceStream stream;
  const DeviceArray<float> x(NormalFloats(1000, 1, 1)), weight(NormalFloats(1000, 1, 2)),
      sums(NormalFloats(1000, 1, 3));
  const DeviceArray<uint16_t> next(size_t{1000});
  AddNormedArgs args = {x.data(), 1000, weight.data(), 1e-5f, sums.data(), 1000,
                        1,        1000, weight.data(), 1e-5f, next.data(), 1000};
  const std::string error = Finish(stream, LaunchAddNormed(args, stream));
  return error.empty() ? kMissed : error;
}

// Rows of e4m3: with a sum and a maximum, and with a maximum alone.
std::string RunScaledNorm() {
  const DeviceStream stream;
  const DeviceArray<float> x(NormalFloats(1000, 1, 1)), weight(NormalFloats(1000, 1, 2));
  const DeviceArray<uint8_t> out(size_t{1000});
  const DeviceArray<float> scales(1);
  RmsNormArgs args = {x.data(), 1000, nullptr, weight.data(),  1e-5f,        out.data(),
                      1000,     1,    1000,    DType::kF8E4M3, scales.data()};
  const std::string error = Finish(stream, LaunchRmsNorm(args, stream));
  return error.empty() ? kMissed : error;
}

std::string RunScaledGate() {
  const DeviceStream stream;
  const DeviceArray<float> gate_up(NormalFloats(2000, 1, 1)), scales(1);
  const DeviceArray<uint8_t> out(size_t{1000});
  GateArgs args;
  args.gate_up = gate_up.data();
  args.gate_up_stride = 2000;
  args.type = DType::kF8E4M3;
  args.rounded = out.data();
  args.rounded_stride = args.cols = 1000;
  args.rounded_scales = scales.data();
  args.rows = 1;
  const std::string error = Finish(stream, LaunchGate(args, stream));
  return error.empty() ? kMissed : error;
}

std::string RunRope() {
  const DeviceStream stream;
  const DeviceArray<float> qkv(NormalFloats(3 * 64, 1, 3)), norm(NormalFloats(64, 1, 4)),
      cos_sin(NormalFloats(64, 1, 5));
  const DeviceArray<int32_t> positions(std::vector<int32_t>{0});
  const DeviceArray<int64_t> slots(std::vector<int64_t>{3});
  const DeviceArray<std::byte> pool(size_t{2 * 8 * 64 * 2});
  RopeKvWriteArgs args;
  args.qkv = qkv.data();
  args.qkv_stride = 192;
  args.rows = 1;
  args.num_heads = 1;
  args.kv = {pool.data(), 2 * 8 * 64 * 2, DType::kBF16, 8, 1, 64};
  args.q_norm = args.k_norm = norm.data();
  args.cos_sin = cos_sin.data();
  args.rotary_dim = 64;
  args.max_positions = 1;
  args.positions = positions.data();
  args.slots = slots.data();
  const std::string error = Finish(stream, LaunchRopeKvWrite(args, stream));
  return error.empty() ? kMissed : error;
}

// top_k, top_p between ties, a draw and log-probabilities: all passes of the kernel.
std::string RunSampling() {
  const DeviceStream stream;
  std::vector<float> logits = NormalFloats(1100, 1, 6);
  for (float& logit : logits) logit = std::round(8 * logit) / 8;
  SampleRow row;
  row.sampling.top_k = 600;
  row.sampling.top_p = 0.6f;
  row.sampling.num_logprobs = 20;
  const DeviceArray<float> device_logits(logits);
  const DeviceArray<SamplingRowArgs> row_args(std::vector<SamplingRowArgs>{RowArgsOf(row)});
  const DeviceArray<std::byte> sampled(SampledBytes(1, 20));
  SamplingArgs args = {device_logits.data(), 1100,   1, 1100, row_args.data(), 20,
                       sampled.data(),       nullptr};
  const std::string error = Finish(stream, LaunchSampling(args, stream));
  if (!error.empty()) return error;
  const std::vector<std::byte> bytes = sampled.Get();
  const auto* header = reinterpret_cast<const SampledRow*>(bytes.data());
  const absl::StatusOr<SampleOutput> ours =
      OutputOf(*header, reinterpret_cast<const TopLogit*>(header + 1), RowArgsOf(row));
  if (!ours.ok()) return std::string(ours.status().message());
  RowSampler sampler;
  const SampleOutput cpu = sampler.Sample(logits, row).value();
  return ours->token == cpu.token && ours->top == cpu.top && ours->logprob == cpu.logprob
             ? kMissed
             : "a wrong result";
}

struct Defect {
  const char* name;
  std::string (*run)();
};

const Defect kDefects[] = {
    {"warp.block_sum", RunNorm},
    {"warp.block_sum", RunAddNormed},
    {"warp.block_sum", RunScaledNorm},
    {"warp.block_max", RunScaledNorm},
    {"warp.block_max", RunScaledGate},
    {"rope_kv_write.before_norm", RunRope},
    {"rope_kv_write.after_norm", RunRope},
    {"rope_kv_write.before_rotation", RunRope},
    {"warp.block_max", RunSampling},
    {"sampling.max_read", RunSampling},
    {"sampling.digits_cleared", RunSampling},
    {"sampling.digits_counted", RunSampling},
    {"sampling.warps_scanned", RunSampling},
    {"sampling.digit_found", RunSampling},
    {"sampling.chunks_summed", RunSampling},
    {"sampling.chunks_read", RunSampling},
    {"sampling.top_cleared", RunSampling},
    {"sampling.top_picked", RunSampling},
};

TEST(PlantedRowDefects, AreCaughtByTheRaceBuild) {
  if (std::string(OCTAVO_EMULATED_BUILD) != "race")
    GTEST_SKIP() << "warp collectives hide a missing barrier from the other builds";
  for (const Defect& defect : kDefects) {
    // Some need an order in which a later thread runs ahead.
    bool caught = false;
    std::string said;
    for (uint64_t seed = 0; seed < 6 && !caught; ++seed) {
      said = emulation::RunInChild([&] {
        emulation::GetOptions().seed = seed;
        emulation::Plant(defect.name);
        return defect.run();
      });
      caught = said != kMissed;
    }
    EXPECT_TRUE(caught) << defect.name;
  }
}

TEST(PlantedRowDefects, AreWhatTheCasesOtherwiseMiss) {
  EXPECT_EQ(RunNorm(), kMissed);
  EXPECT_EQ(RunAddNormed(), kMissed);
  EXPECT_EQ(RunScaledNorm(), kMissed);
  EXPECT_EQ(RunScaledGate(), kMissed);
  EXPECT_EQ(RunRope(), kMissed);
  EXPECT_EQ(RunSampling(), kMissed);
}

}  // namespace
}  // namespace octavo::cuda
