// Accesses of streams that nothing orders are reported whatever order they ran in, and ordered ones
// are not.
#include "tests/emulation/stream_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/emulation/child_process.h"
#include "tests/emulation/device_array.h"
#include "tests/emulation/emulation.h"

namespace octavo::emulation {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kBytes = 10000;  // more than two pages
// The fast build's test runs once for each.
const std::vector<uint64_t> kSeeds = std::string(OCTAVO_EMULATED_BUILD) == "fast"
                                         ? std::vector<uint64_t>{GetOptions().seed}
                                         : std::vector<uint64_t>{0, 1, 2, 3, 4, 5};
// AddressSanitizer takes the faults by which the host's accesses are seen.
const bool kSeesTheHost = std::string(OCTAVO_EMULATED_BUILD) != "asan";

class Event {
 public:
  Event() { cudaEventCreateWithFlags(&event_, cudaEventDisableTiming); }
  ~Event() { cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }  // NOLINT: it stands for the handle

 private:
  cudaEvent_t event_ = nullptr;
};

class Pinned {
 public:
  Pinned() { cudaHostAlloc(reinterpret_cast<void**>(&data_), kBytes, 0); }
  ~Pinned() { cudaFreeHost(data_); }
  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
};

// Two streams, some memory, an event.
struct Scene {
  DeviceStream first, second;
  Event event;
  Pinned host, other_host;
  DeviceArray<char> device{kBytes}, other{kBytes};

  void ToDevice(const DeviceArray<char>& to, const Pinned& from, cudaStream_t stream) const {
    cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyHostToDevice, stream);
  }
  void ToHost(const Pinned& to, const DeviceArray<char>& from, cudaStream_t stream) const {
    cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToHost, stream);
  }
  void Order(cudaStream_t before, cudaStream_t after) const {
    cudaEventRecord(event, before);
    cudaStreamWaitEvent(after, event, 0);
  }
};

using Body = std::function<void(Scene&)>;

// What the device says once all is done, with `bug` planted.
std::vector<Notice> Run(const char* bug, const Body& body) {
  return RunPlanted(bug, kSeeds, [&]() -> std::string {
    GetOptions().eager_streams = GetOptions().seed % 4 == 1;
    GetOptions().check_order = true;
    Scene scene;
    body(scene);
    cudaDeviceSynchronize();
    return TakeError();
  });
}

void ExpectClean(const Body& body) {
  for (const Notice& notice : Run("", body))
    ADD_FAILURE() << "seed " << notice.seed << ": " << notice.message;
}

template <class Matcher>
void ExpectCaught(const char* bug, const Body& body, const Matcher& matcher) {
  const std::vector<Notice> notices = Run(bug, body);
  EXPECT_EQ(notices.size(), kSeeds.size());
  for (const Notice& notice : notices) EXPECT_THAT(notice.message, matcher) << notice.seed;
}

TEST(StreamOrder, AnEventOrdersACopyBeforeAnother) {
  const Body body = [](Scene& s) {
    s.ToHost(s.host, s.device, s.first);
    s.Order(s.first, s.second);
    cudaMemsetAsync(s.device.data() + 100, 0, 50, s.second);
  };
  ExpectClean(body);
  ExpectCaught("cudaStreamWaitEvent", body,
               AllOf(HasSubstr("race between streams"),
                     HasSubstr("copy from the device to the host (operation 1 of stream 2)"),
                     HasSubstr("cudaMemsetAsync (operation 1 of stream 3)")));
}

TEST(StreamOrder, EventsOrderOverAThirdStream) {
  ExpectClean([](Scene& s) {
    const DeviceStream third;
    const Event later;
    s.ToDevice(s.device, s.host, s.first);
    s.Order(s.first, third);
    cudaEventRecord(later, third);
    cudaStreamWaitEvent(s.second, later, 0);
    s.ToHost(s.other_host, s.device, s.second);
  });
}

TEST(StreamOrder, AnEventOrdersOnlyWhatIsBeforeItsRecord) {
  ExpectCaught(
      "",
      [](Scene& s) {
        s.Order(s.first, s.second);
        s.ToDevice(s.device, s.host, s.first);
        s.ToHost(s.other_host, s.device, s.second);
      },
      HasSubstr("race between streams"));
}

TEST(StreamOrder, ReadsOfTwoStreamsAndOtherBytesAreNoRace) {
  ExpectClean([](Scene& s) {
    s.ToHost(s.host, s.device, s.first);
    s.ToHost(s.other_host, s.device, s.second);
    cudaMemsetAsync(s.other.data(), 1, 100, s.first);
    cudaMemsetAsync(s.other.data() + 100, 2, 100, s.second);
  });
}

TEST(StreamOrder, WhatTheHostHasWaitedForIsBeforeAllItSubmitsThen) {
  const Body body = [](Scene& s) {
    s.ToDevice(s.device, s.host, s.first);
    cudaStreamSynchronize(s.first);
    s.ToHost(s.other_host, s.device, s.second);
  };
  ExpectClean(body);
  ExpectCaught("cudaStreamSynchronize", body, HasSubstr("race between streams"));
}

// The staging buffer is filled again while its copy is in flight.
TEST(StreamOrder, TheHostMustNotWriteWhatACopyReads) {
  if (!kSeesTheHost) GTEST_SKIP() << "not in this build";
  const Body body = [](Scene& s) {
    s.ToDevice(s.device, s.host, s.first);
    cudaEventRecord(s.event, s.first);
    s.host.data()[kBytes - 1] += s.host.data()[0];  // reading it is allowed
    cudaEventSynchronize(s.event);
    s.host.data()[1] = 1;
  };
  ExpectCaught(
      "", body,
      AllOf(HasSubstr("race between the host and a stream: the host writes"),
            HasSubstr("copy from the host to the device (operation 1 of stream 2) reads")));
  const Body waits = [](Scene& s) {
    for (int round = 0; round < 3; ++round) {
      cudaEventSynchronize(s.event);
      s.host.data()[round] = 1;
      s.ToDevice(s.device, s.host, s.first);
      cudaEventRecord(s.event, s.first);
    }
  };
  ExpectClean(waits);
  ExpectCaught("cudaEventSynchronize", waits, HasSubstr("the host writes"));
}

TEST(StreamOrder, TheHostMustNotReadAResultBeforeItsEvent) {
  if (!kSeesTheHost) GTEST_SKIP() << "not in this build";
  const Body body = [](Scene& s) {
    s.ToHost(s.host, s.device, s.first);
    cudaEventRecord(s.event, s.first);
    s.ToDevice(s.other, s.other_host, s.first);  // this need not be over
    cudaEventSynchronize(s.event);
    if (s.host.data()[kBytes / 2] == 77) s.host.data()[kBytes / 2] = 78;
  };
  ExpectClean(body);
  ExpectCaught("cudaEventSynchronize", body,
               AllOf(HasSubstr("the host reads"), HasSubstr("copy from the device to the host")));
  ExpectClean([](Scene& s) {
    s.ToHost(s.host, s.device, s.first);
    while (cudaStreamQuery(s.first) == cudaErrorNotReady) {
    }
    s.host.data()[0] = 1;
  });
}

TEST(StreamOrder, AHostFunctionFollowsItsStream) {
  const Body body = [](Scene& s) {
    s.ToHost(s.host, s.device, s.first);
    cudaLaunchHostFunc(
        s.first, [](void* data) { static_cast<char*>(data)[5] = 1; }, s.host.data());
    cudaStreamSynchronize(s.first);
  };
  ExpectClean(body);
  if (!kSeesTheHost) return;
  ExpectCaught(
      "",
      [](Scene& s) {
        s.ToHost(s.host, s.device, s.first);
        cudaLaunchHostFunc(
            s.second, [](void* data) { static_cast<char*>(data)[5] = 1; }, s.host.data());
      },
      HasSubstr("the host writes"));
}

TEST(StreamOrder, MemoryIsNotFreedWhileAnotherStreamUsesIt) {
  const auto body = [](bool ordered) {
    return [ordered](Scene& s) {
      void* workspace = nullptr;
      cudaMalloc(&workspace, kBytes);
      cudaMemsetAsync(workspace, 0, kBytes, s.first);
      if (ordered) s.Order(s.first, s.second);
      cudaFreeAsync(workspace, s.second);
    };
  };
  ExpectClean(body(true));
  // Where the memory is gone already, its use is what is reported.
  ExpectCaught("", body(false),
               ::testing::AnyOf(HasSubstr("cudaFreeAsync (operation 1 of stream 3) writes"),
                                HasSubstr("are not inside one device allocation")));
  ExpectClean([](Scene& s) {  // cudaFree waits for the device
    void* workspace = nullptr;
    cudaMalloc(&workspace, kBytes);
    cudaMemsetAsync(workspace, 0, kBytes, s.first);
    cudaFree(workspace);
  });
}

TEST(StreamOrder, GraphsReplayAsTheirOperations) {
  const Body body = [](Scene& s) {
    cudaStreamBeginCapture(s.first, cudaStreamCaptureModeThreadLocal);
    s.ToDevice(s.device, s.host, s.first);
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(s.first, &graph);
    cudaGraphExec_t executable = nullptr;
    cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    for (int round = 0; round < 2; ++round) {
      cudaGraphLaunch(executable, s.first);
      s.Order(s.first, s.second);
      s.ToHost(s.other_host, s.device, s.second);
      cudaEventRecord(s.event, s.second);
      cudaStreamWaitEvent(s.first, s.event, 0);
    }
    cudaDeviceSynchronize();
    cudaGraphExecDestroy(executable);
  };
  ExpectClean(body);
  ExpectCaught("cudaStreamWaitEvent", body, HasSubstr("race between streams"));
}

TEST(StreamOrder, BranchesOfAGraphAreOrderedByItsEventsAlone) {
  const auto body = [](bool forked, bool joined) {
    return [=](Scene& s) {
      const Event join, graph_end;
      cudaStreamBeginCapture(s.first, cudaStreamCaptureModeThreadLocal);
      if (!forked) s.Order(s.first, s.second);
      cudaMemsetAsync(s.device.data(), 1, 10, s.first);
      if (forked) s.Order(s.first, s.second);
      cudaMemsetAsync(s.device.data(), 2, 10, s.second);
      cudaEventRecord(join, s.second);
      if (!joined) cudaMemsetAsync(s.device.data(), 3, 10, s.first);
      cudaStreamWaitEvent(s.first, join, 0);
      if (joined) cudaMemsetAsync(s.device.data(), 3, 10, s.first);
      cudaGraph_t graph = nullptr;
      cudaStreamEndCapture(s.first, &graph);
      cudaGraphExec_t executable = nullptr;
      cudaGraphInstantiate(&executable, graph, 0);
      cudaGraphDestroy(graph);
      cudaGraphLaunch(executable, s.first);
      cudaGraphLaunch(executable, s.first);
      cudaMemsetAsync(s.device.data(), 4, 10, s.first);
      cudaDeviceSynchronize();
      cudaGraphExecDestroy(executable);
    };
  };
  ExpectClean(body(true, true));
  ExpectCaught("", body(false, true), HasSubstr("branch of a graph"));
  ExpectCaught("", body(true, false), HasSubstr("branch of a graph"));
}

TEST(StreamOrder, WhatTheHostHasWaitedForMakesRoom) {
  ExpectClean([](Scene& s) {
    constexpr size_t kRows = AccessHistory::kMaxPieces / 2 + 1;  // every second byte of two arrays
    const DeviceArray<char> from(kRows * 2), to(kRows * 2);
    for (int round = 0; round < 2; ++round) {
      cudaMemcpy2DAsync(to.data() + round, 2, from.data(), 2, 1, kRows, cudaMemcpyDeviceToDevice,
                        round == 0 ? s.first : s.second);
      cudaDeviceSynchronize();
    }
    s.ToDevice(s.device, s.host, s.first);
  });
}

}  // namespace
}  // namespace octavo::emulation
