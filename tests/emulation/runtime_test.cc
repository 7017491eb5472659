// What the stand-in runtime promises: orders that a program does not enforce do happen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/emulation/device_array.h"
#include "tests/emulation/emulation.h"

namespace octavo::emulation {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kFloats = 100;
constexpr size_t kBytes = kFloats * sizeof(float);

// Pinned memory, as copies that overlap need it.
class Pinned {
 public:
  explicit Pinned(float value) {
    EXPECT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&data_), kBytes, 0), cudaSuccess);
    Fill(value);
  }
  ~Pinned() { cudaFreeHost(data_); }
  void Fill(float value) {
    for (size_t i = 0; i < kFloats; ++i) data_[i] = value;
  }
  float* data() { return data_; }

 private:
  float* data_ = nullptr;
};

class StandInRuntimeTest : public ::testing::Test {
 protected:
  ~StandInRuntimeTest() override {
    TakeError();
    GetOptions() = options_;
  }
  // Everything as late as is legal, and what goes wrong then is not stopped.
  static void BeLazy() {
    GetOptions().check_order = false;
    GetOptions().seed = 0;
    GetOptions().eager_streams = false;
  }

 private:
  Options options_ = GetOptions();
};

TEST_F(StandInRuntimeTest, EventsOrderStreams) {
  const DeviceStream first, second;
  Pinned source(3);
  const DeviceArray<float> a(kFloats), b(kFloats);
  cudaEvent_t copied;
  ASSERT_EQ(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming), cudaSuccess);
  cudaMemcpyAsync(a.data(), source.data(), kBytes, cudaMemcpyHostToDevice, first);
  cudaEventRecord(copied, first);
  cudaStreamWaitEvent(second, copied, 0);
  cudaMemcpyAsync(b.data(), a.data(), kBytes, cudaMemcpyDeviceToDevice, second);
  EXPECT_EQ(second.Synchronize(), "");
  EXPECT_THAT(b.Get(), Each(3.0f));
  cudaEventDestroy(copied);
}

TEST_F(StandInRuntimeTest, WithoutAnEventAStreamMayRunFirst) {
  BeLazy();
  const DeviceStream first, second;
  Pinned source(3);
  const DeviceArray<float> a(kFloats), b(kFloats);
  cudaMemcpyAsync(a.data(), source.data(), kBytes, cudaMemcpyHostToDevice, first);
  cudaMemcpyAsync(b.data(), a.data(), kBytes, cudaMemcpyDeviceToDevice, second);
  EXPECT_EQ(second.Synchronize(), "");
  EXPECT_TRUE(std::isnan(b.Get()[0]));
}

TEST_F(StandInRuntimeTest, PinnedTargetsAreFilledBySynchronisationOnly) {
  BeLazy();
  const DeviceStream stream;
  Pinned target(1);
  const DeviceArray<float> source(std::vector<float>(kFloats, 5));
  cudaMemcpyAsync(target.data(), source.data(), kBytes, cudaMemcpyDeviceToHost, stream);
  EXPECT_EQ(target.data()[0], 1.0f);
  EXPECT_EQ(stream.Synchronize(), "");
  EXPECT_EQ(target.data()[0], 5.0f);
}

TEST_F(StandInRuntimeTest, PageableSourcesAreReadByTheCall) {
  const DeviceStream stream;
  std::vector<float> source(kFloats, 2);
  const DeviceArray<float> target(kFloats);
  cudaMemcpyAsync(target.data(), source.data(), kBytes, cudaMemcpyHostToDevice, stream);
  source.assign(kFloats, 9);
  EXPECT_EQ(stream.Synchronize(), "");
  EXPECT_THAT(target.Get(), Each(2.0f));
}

TEST_F(StandInRuntimeTest, SynchronousCopiesDoNotWaitForNonBlockingStreams) {
  BeLazy();
  const DeviceStream stream;
  Pinned source(3);
  const DeviceArray<float> target(kFloats);
  cudaMemcpyAsync(target.data(), source.data(), kBytes, cudaMemcpyHostToDevice, stream);
  EXPECT_TRUE(std::isnan(target.Get()[0]));
  EXPECT_EQ(stream.Synchronize(), "");
  EXPECT_EQ(target.Get()[0], 3.0f);
}

TEST_F(StandInRuntimeTest, GraphsReplayWhatWasCaptured) {
  const DeviceStream stream;
  Pinned source(1);
  const DeviceArray<float> a(kFloats), b(kFloats);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaMemcpyAsync(a.data(), source.data(), kBytes, cudaMemcpyHostToDevice, stream);
  cudaMemcpyAsync(b.data(), a.data(), kBytes, cudaMemcpyDeviceToDevice, stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  void* none = nullptr;
  EXPECT_EQ(cudaMalloc(&none, 16), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  size_t nodes = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 2u);
  cudaGraphExec_t executable;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_TRUE(std::isnan(b.Get()[0]));  // capturing runs nothing
  for (const float value : {4.0f, 6.0f}) {
    source.Fill(value);
    EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
    EXPECT_EQ(stream.Synchronize(), "");
    EXPECT_THAT(b.Get(), Each(value));
  }
  cudaGraphExecDestroy(executable);
}

TEST_F(StandInRuntimeTest, AnEventJoinsAStreamToACapture) {
  const DeviceStream first, second;
  Pinned source(8);
  const DeviceArray<float> a(kFloats);
  cudaEvent_t fork, join;
  cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
  cudaEventCreateWithFlags(&join, cudaEventDisableTiming);
  ASSERT_EQ(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal), cudaSuccess);
  cudaEventRecord(fork, first);
  EXPECT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaSuccess);
  cudaMemcpyAsync(a.data(), source.data(), kBytes, cudaMemcpyHostToDevice, second);
  cudaEventRecord(join, second);
  EXPECT_EQ(cudaStreamWaitEvent(first, join, 0), cudaSuccess);
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamEndCapture(first, &graph), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaErrorInvalidValue);  // the capture has ended
  cudaGraphExec_t executable;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(executable, first), cudaSuccess);
  EXPECT_EQ(first.Synchronize(), "");
  EXPECT_THAT(a.Get(), Each(8.0f));
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaEventDestroy(fork);
  cudaEventDestroy(join);
}

TEST_F(StandInRuntimeTest, ACopyPastAnAllocationIsAStickyError) {
  const DeviceStream stream;
  std::vector<float> source(kFloats + 1);
  const DeviceArray<float> target(kFloats);
  cudaMemcpyAsync(target.data(), source.data(), kBytes + sizeof(float), cudaMemcpyHostToDevice,
                  stream);
  EXPECT_THAT(stream.Synchronize(), HasSubstr("not inside one device allocation"));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(TakeError(), HasSubstr("target of a copy"));
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST_F(StandInRuntimeTest, DeviceMemoryPassedAsHostMemoryIsRefused) {
  const DeviceStream stream;
  const DeviceArray<float> a(kFloats), b(kFloats);
  cudaMemcpyAsync(a.data(), b.data(), kBytes, cudaMemcpyHostToDevice, stream);
  EXPECT_THAT(stream.Synchronize(), HasSubstr("device memory is given as host memory"));
}

TEST_F(StandInRuntimeTest, LendsNoMoreThanTheDeviceHas) {
  size_t free_bytes = 0, total = 0;
  cudaMemGetInfo(&free_bytes, &total);
  GetOptions().device_bytes = static_cast<int64_t>(total - free_bytes) + 4096;
  void *fits = nullptr, *none = nullptr;
  EXPECT_EQ(cudaMalloc(&fits, 4096), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&none, 256), cudaErrorMemoryAllocation);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(cudaFree(fits), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&fits, 256), cudaSuccess);
  EXPECT_EQ(cudaFree(fits), cudaSuccess);
  EXPECT_EQ(cudaFree(fits), cudaErrorInvalidValue);
}

TEST_F(StandInRuntimeTest, TakesCallsFromSeveralThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([i] {
      const DeviceStream stream;
      Pinned source(static_cast<float>(i)), target(-1);
      const DeviceArray<float> device(kFloats);
      for (int round = 0; round < 20; ++round) {
        source.Fill(static_cast<float>(i + round));
        cudaMemcpyAsync(device.data(), source.data(), kBytes, cudaMemcpyHostToDevice, stream);
        cudaMemcpyAsync(target.data(), device.data(), kBytes, cudaMemcpyDeviceToHost, stream);
        EXPECT_EQ(stream.Synchronize(), "");
        EXPECT_EQ(target.data()[kFloats - 1], static_cast<float>(i + round));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace octavo::emulation
