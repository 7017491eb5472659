// The worker's waits, each left out: a race is reported with every seed, whatever order the streams
// ran in, and none is when all are there.
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/emulation/child_process.h"
#include "tests/emulation/device_array.h"
#include "tests/emulation/emulation.h"
#include "tests/worker/cuda/bfloat16_testing.h"
#include "worker/cuda/cuda_backend.h"
#include "worker/cuda/gemm.h"

namespace octavo::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kBuild = OCTAVO_EMULATED_BUILD;
// AddressSanitizer takes the faults by which the host's accesses are seen.
const bool kSeesTheHost = kBuild != "asan";
// The fast build's test runs once for each.
const std::vector<uint64_t> kSeeds = std::string(OCTAVO_EMULATED_BUILD) == "fast"
                                         ? std::vector<uint64_t>{emulation::GetOptions().seed}
                                         : std::vector<uint64_t>{0, 1, 2, 3, 4, 5};

// What the device says once all is done, with `bug` planted.
std::vector<emulation::Notice> Run(const char* bug, const std::function<void(CudaBackend&)>& body) {
  return emulation::RunPlanted(bug, kSeeds, [&]() -> std::string {
    emulation::GetOptions().eager_streams = emulation::GetOptions().seed % 4 == 1;
    emulation::GetOptions().check_order = true;
    auto backend = CudaBackend::Create({});
    if (!backend.ok()) return std::string(backend.status().message());
    body(**backend);
    cudaDeviceSynchronize();
    return emulation::TakeError();
  });
}

template <class Matcher>
void ExpectCaughtAlone(const char* bug, const std::function<void(CudaBackend&)>& body,
                       const Matcher& matcher) {
  for (const emulation::Notice& notice : Run("", body))
    ADD_FAILURE() << "seed " << notice.seed << ", nothing planted: " << notice.message;
  const std::vector<emulation::Notice> notices = Run(bug, body);
  EXPECT_EQ(notices.size(), kSeeds.size());
  for (const emulation::Notice& notice : notices)
    EXPECT_THAT(notice.message, matcher) << "seed " << notice.seed;
}

constexpr size_t kBlockBytes = 8192;

// A block leaves for the host, and what comes next writes to it.
TEST(PlantedOrder, AStepThatWritesABlockWaitsForItsCopyOut) {
  const auto body = [](CudaBackend& backend) {
    const Buffer host = *backend.AllocateHost(kBlockBytes);
    const Buffer pool = *backend.Allocate(4 * kBlockBytes);
    const std::vector<std::byte> zeros(4 * kBlockBytes);
    (void)backend.CopyToDevice(pool.data(), zeros.data(), zeros.size());
    cudaDeviceSynchronize();
    (void)backend.SwapOut(host.data(), pool.data() + kBlockBytes, kBlockBytes);
    const auto geometry = *CacheGeometry::Create({1, 1, 64}, DType::kBF16, 32);
    ASSERT_EQ(geometry.bytes_per_block(), static_cast<int64_t>(kBlockBytes));
    // Kernels are seen in the race build alone.
    if (kBuild == "race")
      (void)backend.CopyBlocks({{{2, 1}}, {pool.data(), geometry}});
    else
      (void)backend.CopyToDevice(pool.data() + kBlockBytes, zeros.data(), 16);
    cudaDeviceSynchronize();
  };
  ExpectCaughtAlone(
      "cudaStreamSynchronize", body,
      AllOf(HasSubstr("race between streams"), HasSubstr("copy from the device to the host"),
            HasSubstr(kBuild == "race" ? "CopyPieces" : "copy from the host")));
}

// A block comes back, and a step reads it.
TEST(PlantedOrder, AStepThatReadsABlockWaitsForItsCopyIn) {
  if (kBuild != "race") GTEST_SKIP() << "kernels are not seen in this build";
  const auto body = [](CudaBackend& backend) {
    const Buffer host = *backend.AllocateHost(kBlockBytes);
    std::memset(host.data(), 0, kBlockBytes);
    const Buffer pool = *backend.Allocate(4 * kBlockBytes);
    (void)backend.SwapIn(pool.data() + kBlockBytes, host.data(), kBlockBytes);
    const auto geometry = *CacheGeometry::Create({1, 1, 64}, DType::kBF16, 32);
    (void)backend.CopyBlocks({{{1, 2}}, {pool.data(), geometry}});
    cudaDeviceSynchronize();
  };
  ExpectCaughtAlone("cudaStreamSynchronize", body,
                    AllOf(HasSubstr("race between streams"),
                          HasSubstr("copy from the host to the device"), HasSubstr("CopyPieces")));
}

TEST(PlantedOrder, AStagingSlotIsFilledWhenItsCopyIsOver) {
  if (!kSeesTheHost) GTEST_SKIP() << "not in this build";
  const auto body = [](CudaBackend& backend) {
    const Buffer target = *backend.Allocate(64);
    for (int i = 0; i <= Staging::kSlots; ++i)
      (void)backend.CopyToDevice(target.data(), &i, sizeof i);
    cudaDeviceSynchronize();
  };
  ExpectCaughtAlone("cudaEventSynchronize", body,
                    AllOf(HasSubstr("race between the host and a stream: the host writes"),
                          HasSubstr("copy from the host to the device")));
}

TEST(PlantedOrder, ChoicesAreReadWhenTheirStepIsOver) {
  if (!kSeesTheHost) GTEST_SKIP() << "not in this build";
  const auto body = [](CudaBackend& backend) {
    const LargestStep limits = {4,  2, 2,
                                64, 4, *CacheGeometry::Create({2, 2, 64}, DType::kBF16, 16)};
    (void)backend.Reserve(limits);
    const std::vector<float> logits(2 * 32, 1.0f);
    const Buffer device = *backend.Allocate(logits.size() * sizeof(float));
    (void)backend.CopyToDevice(device.data(), logits.data(), device.bytes());
    std::vector<SampleOutput> out;
    SampleParams params;
    params.logits = {device.as<float>(), 2, 32, 32};
    params.rows.resize(2);
    params.out = &out;
    (void)backend.Sample(params);
    (void)backend.SubmitStep();
    (void)backend.FinishStep();
    cudaDeviceSynchronize();
  };
  ExpectCaughtAlone("cudaEventSynchronize", body,
                    AllOf(HasSubstr("race between the host and a stream: the host reads"),
                          HasSubstr("copy from the device to the host")));
}

// Products of two streams through one workspace.
TEST(PlantedOrder, AWorkspaceServesOneStreamAtATime) {
  const auto body = [](CudaBackend&) {
    const emulation::DeviceStream first, second;
    std::mt19937 random(1);
    const emulation::DeviceArray<uint16_t> x(RandomBFloat16(2 * 16, random));
    const emulation::DeviceArray<uint16_t> weight(RandomBFloat16(8 * 16, random));
    const emulation::DeviceArray<float> out(2 * 8), other(2 * 8);
    const std::unique_ptr<Gemm> gemm = *Gemm::Create();
    GemmArgs args;
    args.x = x.data();
    args.weight = weight.data();
    args.x_stride = args.weight_stride = args.in_features = 16;
    args.out_stride = args.out_features = 8;
    args.rows = 2;
    args.out = out.data();
    (void)gemm->Run(args, first);
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventRecord(event, first);
    cudaStreamWaitEvent(second, event, 0);
    args.out = other.data();
    (void)gemm->Run(args, second);
    cudaDeviceSynchronize();
    cudaEventDestroy(event);
  };
  ExpectCaughtAlone("cudaStreamWaitEvent", body,
                    AllOf(HasSubstr("race between streams"), HasSubstr("cublasLtMatmul")));
}

}  // namespace
}  // namespace octavo::cuda
