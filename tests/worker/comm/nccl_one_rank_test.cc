// A group of one: all that one card can show of NCCL. Built for NCCL itself and for its stand-in.
#include <cuda_runtime_api.h>

#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/emulation/device_array.h"
#include "worker/comm/nccl_communicator.h"

namespace octavo {
namespace {

using emulation::DeviceArray;
using emulation::DeviceStream;

std::unique_ptr<Communicator> Found(cudaStream_t stream) {
  auto offer = OfferNccl({.place = {0, 1}}, stream);
  EXPECT_TRUE(offer.ok()) << offer.status();
  auto communicator = (*offer)->Join({(*offer)->address()});
  EXPECT_TRUE(communicator.ok()) << communicator.status();
  return *std::move(communicator);
}

TEST(NcclOneRank, SumsAndAbortsAndIsFoundedAgain) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
  const DeviceStream stream;
  std::vector<float> values(100'000);
  std::iota(values.begin(), values.end(), -50'000.0f);
  const DeviceArray<float> data(values);
  for (int epoch = 0; epoch < 2; ++epoch) {
    const std::unique_ptr<Communicator> communicator = Found(stream);
    for (int step = 0; step < 3; ++step) {
      EXPECT_EQ(communicator->AllReduceSum(data.data(), 100'000), absl::OkStatus());
      EXPECT_EQ(communicator->AllReduceSum(data.data(), 576), absl::OkStatus());
      EXPECT_EQ(communicator->Finish(), absl::OkStatus());
    }
    EXPECT_EQ(data.Get(), values);
    int32_t id = 7;
    EXPECT_EQ(communicator->Broadcast(&id, sizeof(id)), absl::OkStatus());
    communicator->Abort(absl::AbortedError("enough"));
    EXPECT_EQ(communicator->AllReduceSum(data.data(), 576), absl::AbortedError("enough"));
    EXPECT_EQ(communicator->Finish(), absl::AbortedError("enough"));
  }
}

}  // namespace
}  // namespace octavo
