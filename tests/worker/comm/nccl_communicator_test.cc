// The NCCL communicator over the stand-in for NCCL: ranks with an emulated device each.
#include "worker/comm/nccl_communicator.h"

#include <cmath>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/emulation/child_process.h"
#include "tests/emulation/device_array.h"
#include "tests/emulation/emulation.h"
#include "tests/worker/comm/rank_processes.h"

namespace octavo {
namespace {

using emulation::DeviceArray;
using emulation::DeviceStream;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Long enough to found a group on a machine that is busy with other things.
constexpr absl::Duration kSilence = absl::Seconds(3);

RankProcesses::Offer Nccl(absl::Duration timeout) {
  return [timeout](const GroupPlace& place) {
    // For the life of the rank's process.
    return OfferNccl({.place = place, .timeout = timeout}, *new DeviceStream);
  };
}

// What rank `rank` brings to a sum: magnitudes so different that the order of adding shows.
std::vector<float> Values(int32_t rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const auto mixed = static_cast<int64_t>(i * 2654435761u + static_cast<size_t>(rank) * 40503u);
    values[i] = static_cast<float>(mixed % 1000 - 500) * (mixed % 3 == 0 ? 1e3f : 1e-3f);
  }
  return values;
}

// "": the sum of all ranks' values is the double reference's, to the rounding of its additions.
std::string CheckSum(const std::vector<float>& got, int32_t size) {
  std::vector<std::vector<float>> parts;
  for (int32_t rank = 0; rank < size; ++rank) parts.push_back(Values(rank, got.size()));
  for (size_t i = 0; i < got.size(); ++i) {
    double sum = 0, magnitude = 0;
    for (const std::vector<float>& part : parts) {
      sum += part[i];
      magnitude += std::abs(part[i]);
    }
    // size - 1 additions, each within 2^-24 of a partial sum.
    if (!(std::abs(got[i] - sum) <= (size - 1) * magnitude * std::ldexp(1.0, -24)))
      return absl::StrCat("element ", i, " of ", got.size(), " is ", got[i], ", not ", sum);
  }
  return "";
}

uint64_t Digest(const std::vector<float>& values) {
  uint64_t digest = 0;
  for (const float value : values) digest = digest * 1099511628211u + emulation::ToBits(value);
  return digest;
}

TEST(NcclCommunicator, SumsEqualTheDoubleReferenceWithTheSameBitsOnAllRanks) {
  for (const int32_t size : {2, 3}) {
    RankProcesses ranks(size, Nccl(absl::Seconds(20)), [](Communicator& communicator) {
      const auto [rank, size] = communicator.place();
      uint64_t digest = 0;
      for (const size_t count : {size_t{1}, size_t{576}, size_t{50'001}}) {
        const DeviceArray<float> first(Values(rank, count)), second(Values(rank, count));
        // Two in a row, without waiting between them, as a layer has.
        for (const auto* data : {&first, &second}) {
          const absl::Status status =
              communicator.AllReduceSum(data->data(), static_cast<int64_t>(count));
          if (!status.ok()) return status.ToString();
        }
        if (const absl::Status status = communicator.Finish(); !status.ok())
          return status.ToString();
        for (const auto* data : {&first, &second}) {
          if (const std::string wrong = CheckSum(data->Get(), size); !wrong.empty()) return wrong;
          digest += Digest(data->Get());
        }
      }
      return absl::StrCat("sums ", digest);
    });
    const std::string first = ranks.Answer(0);
    EXPECT_THAT(first, StartsWith("sums "));
    for (int32_t rank = 1; rank < size; ++rank) EXPECT_EQ(ranks.Answer(rank), first);
  }
}

// Also where the rows of logits do not all fit into what gathers them.
TEST(NcclCommunicator, BroadcastAndGatherReachTheirPlaces) {
  const auto work = [](Communicator& communicator) -> std::string {
    std::vector<int32_t> ids(4, communicator.place().rank == 0 ? 7 : -1);
    if (const absl::Status status = communicator.Broadcast(ids.data(), 16); !status.ok())
      return status.ToString();
    if (ids != std::vector<int32_t>(4, 7)) return "broadcast";

    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{5, 11}, {3, 800'001}}) {
      const std::vector<int64_t> begins = {0, cols / 2, cols / 2 + 3};
      const auto rank = static_cast<size_t>(communicator.place().rank);
      const int64_t begin = begins[rank];
      const int64_t own = (rank == 2 ? cols : begins[rank + 1]) - begin;
      const int64_t stride = rank == 0 ? cols : own;
      const auto value = [](int64_t row, int64_t col) {
        return static_cast<float>(1'000'000 * row + col);
      };
      std::vector<float> host(static_cast<size_t>(rows * stride), -1.0f);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t col = 0; col < own; ++col)
          host[static_cast<size_t>(row * stride + col)] = value(row, begin + col);
      const DeviceArray<float> device(host);
      const Matrix local = {device.data(), rows, own, stride};
      const Matrix out = {device.data(), rows, cols, stride};
      absl::Status status = communicator.GatherColumns(local, begins, out);
      if (status.ok()) status = communicator.Finish();
      if (!status.ok()) return status.ToString();
      const std::vector<float> got = device.Get();
      for (int64_t i = 0; rank == 0 && i < rows * cols; ++i)
        if (got[static_cast<size_t>(i)] != value(i / cols, i % cols))
          return absl::StrCat("row ", i / cols, " column ", i % cols, " is ",
                              got[static_cast<size_t>(i)]);
    }
    const absl::Status status = communicator.Barrier();
    return status.ok() ? "ok" : status.ToString();
  };
  RankProcesses ranks(3, Nccl(absl::Seconds(20)), work);
  for (const int32_t rank : {0, 1, 2}) EXPECT_EQ(ranks.Answer(rank), "ok");
}

// Steps of two sums, until something fails; answers the error, and that of the call after it where
// that differs. Stops before a step when `stop_at` says so.
std::string StepUntilAnError(Communicator& communicator, int stop_at = -1) {
  const DeviceArray<float> data(std::vector<float>(5000, 0.5f));
  for (int step = 0;; ++step) {
    if (step == stop_at) std::raise(SIGSTOP);
    absl::Status status = communicator.AllReduceSum(data.data(), 5000);
    if (status.ok()) status = communicator.AllReduceSum(data.data(), 5000);
    if (status.ok()) status = communicator.Finish();
    if (status.ok()) continue;
    const absl::Status again = communicator.Finish();
    return again == status ? status.ToString()
                           : absl::StrCat(status.ToString(), "; then ", again.ToString());
  }
}

TEST(NcclCommunicator, AKilledRankIsNamedLongBeforeTheTimeout) {
  RankProcesses ranks(3, Nccl(absl::Seconds(30)),
                      [](Communicator& communicator) { return StepUntilAnError(communicator); });
  absl::SleepFor(absl::Milliseconds(50));
  const absl::Time start = absl::Now();
  ranks.Signal(2, SIGKILL);
  for (const int32_t rank : {0, 1})
    EXPECT_THAT(ranks.Answer(rank), StartsWith("UNAVAILABLE: rank 2 of 3 is gone"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST(NcclCommunicator, AStoppedRankIsNamedAfterTheTimeout) {
  RankProcesses ranks(2, Nccl(kSilence), [](Communicator& communicator) {
    return StepUntilAnError(communicator, communicator.place().rank == 1 ? 5 : -1);
  });
  const absl::Time start = absl::Now();
  EXPECT_EQ(ranks.Answer(0), "DEADLINE_EXCEEDED: rank 1 of 2 did not answer within 3s");
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

// All processes are well, but a card does not come to the end of a collective.
TEST(NcclCommunicator, ACollectiveThatHangsOnACardIsAborted) {
  RankProcesses ranks(2, Nccl(kSilence), [](Communicator& communicator) -> std::string {
    const DeviceArray<float> data(100);
    absl::Status status = communicator.AllReduceSum(data.data(), 100);
    if (status.ok()) status = communicator.Finish();
    if (!status.ok()) return status.ToString();
    if (communicator.place().rank == 1) emulation::Plant("hung_collective");
    return StepUntilAnError(communicator);
  });
  const absl::Time start = absl::Now();
  for (const int32_t rank : {0, 1}) EXPECT_THAT(ranks.Answer(rank), HasSubstr("of 2 "));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST(NcclCommunicator, AbortEndsACollectiveInProgress) {
  RankProcesses ranks(2, Nccl(absl::Seconds(30)), [](Communicator& communicator) -> std::string {
    if (communicator.place().rank == 1) {
      absl::SleepFor(absl::Seconds(1));
      return "slept";
    }
    std::thread aborting([&] {
      absl::SleepFor(absl::Milliseconds(100));
      communicator.Abort(absl::AbortedError("enough"));
    });
    const std::string answer = StepUntilAnError(communicator);
    aborting.join();
    return answer;
  });
  const absl::Time start = absl::Now();
  EXPECT_EQ(ranks.Answer(0), "ABORTED: enough");
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST(NcclCommunicator, ARankThatNeverJoinsEndsTheFoundingByName) {
  EXPECT_THAT(emulation::RunInChild([] {
                const DeviceStream stream;
                std::vector<std::unique_ptr<CommunicatorOffer>> offers;
                std::vector<std::string> addresses;
                for (const int32_t rank : {0, 1}) {
                  offers.push_back(
                      *OfferNccl({.place = {rank, 2}, .timeout = absl::Milliseconds(500)}, stream));
                  addresses.push_back(offers.back()->address());
                }
                return offers[0]->Join(addresses).status().ToString();
              }),
              HasSubstr("DEADLINE_EXCEEDED: rank 1 of 2 did not answer within 500ms"));
}

TEST(NcclCommunicator, RefusesWhatIsNoAddressOrInterface) {
  EXPECT_THAT(emulation::RunInChild([] {
                const DeviceStream stream;
                auto offer = *OfferNccl({.place = {0, 2}}, stream);
                return offer->Join({""}).status().ToString();
              }),
              HasSubstr("1 communicator addresses for 2 ranks"));
  EXPECT_THAT(emulation::RunInChild([] {
                const DeviceStream stream;
                const CommunicatorOptions options = {.place = {0, 2}, .interface = "nosuch0"};
                return OfferNccl(options, stream).status().ToString();
              }),
              HasSubstr("interface nosuch0"));
}

}  // namespace
}  // namespace octavo
