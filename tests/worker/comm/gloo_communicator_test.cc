#include "worker/comm/gloo_communicator.h"

#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

using ::testing::HasSubstr;

std::vector<std::unique_ptr<CommunicatorOffer>> Offers(int32_t size, absl::Duration timeout) {
  std::signal(SIGPIPE, SIG_IGN);  // as programs do (common/program)
  std::vector<std::unique_ptr<CommunicatorOffer>> offers;
  for (int32_t rank = 0; rank < size; ++rank) {
    auto offer = OfferGloo({.place = {rank, size}, .timeout = timeout});
    EXPECT_TRUE(offer.ok()) << offer.status();
    offers.push_back(*std::move(offer));
  }
  return offers;
}

std::vector<std::string> AddressesOf(
    const std::vector<std::unique_ptr<CommunicatorOffer>>& offers) {
  std::vector<std::string> addresses;
  for (const auto& offer : offers) addresses.push_back(offer->address());
  return addresses;
}

// Runs `body` on one thread for each rank.
void OnRanks(int32_t size, const std::function<void(int32_t rank, Communicator&)>& body,
             absl::Duration timeout = absl::Seconds(20)) {
  const auto offers = Offers(size, timeout);
  const std::vector<std::string> addresses = AddressesOf(offers);
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      auto communicator = offers[static_cast<size_t>(rank)]->Join(addresses);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      body(rank, **communicator);
    });
  for (std::thread& thread : threads) thread.join();
}

// What rank `rank` brings to a sum: magnitudes so different that the order of adding shows.
std::vector<float> Values(int32_t rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t mixed =
        static_cast<int64_t>(i * 2654435761u + static_cast<size_t>(rank) * 40503u);
    values[i] = static_cast<float>(mixed % 1000 - 500) * (mixed % 3 == 0 ? 1e6f : 1e-3f);
  }
  return values;
}

TEST(GlooCommunicator, SumsAreInTheOrderOfRanksAtEverySize) {
  for (const int32_t size : {2, 3, 4}) {
    for (const size_t count : {size_t{1}, size_t{576}, size_t{50'001}}) {
      std::vector<float> expected = Values(0, count);
      for (int32_t rank = 1; rank < size; ++rank) {
        const std::vector<float> more = Values(rank, count);
        for (size_t i = 0; i < count; ++i) expected[i] += more[i];
      }
      OnRanks(size, [&](int32_t rank, Communicator& communicator) {
        EXPECT_EQ(communicator.place().rank, rank);
        for (int time = 0; time < 3; ++time) {
          std::vector<float> data = Values(rank, count);
          const absl::Status status =
              communicator.AllReduceSum(data.data(), static_cast<int64_t>(count));
          ASSERT_TRUE(status.ok()) << status;
          EXPECT_EQ(data, expected) << "rank " << rank << " of " << size << ", " << count;
        }
      });
    }
  }
}

TEST(GlooCommunicator, BroadcastAndGatherReachTheirPlaces) {
  constexpr int64_t kRows = 5, kCols = 11;
  const std::vector<int64_t> begins = {0, 6, 9};
  OnRanks(3, [&](int32_t rank, Communicator& communicator) {
    std::vector<int32_t> ids(4, rank == 0 ? 7 : -1);
    ASSERT_TRUE(communicator.Broadcast(ids.data(), 4 * sizeof(int32_t)).ok());
    EXPECT_EQ(ids, std::vector<int32_t>(4, 7));

    const int64_t begin = begins[static_cast<size_t>(rank)];
    const int64_t end = rank == 2 ? kCols : begins[static_cast<size_t>(rank) + 1];
    std::vector<float> out(rank == 0 ? kRows * kCols : 0, -1.0f);
    std::vector<float> own(static_cast<size_t>(kRows * (end - begin)));
    Matrix local = {own.data(), kRows, end - begin, end - begin};
    if (rank == 0) local = {out.data(), kRows, end - begin, kCols};
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t col = begin; col < end; ++col)
        local.row(row)[col - begin] = static_cast<float>(100 * row + col);
    ASSERT_TRUE(communicator.GatherColumns(local, begins, {out.data(), kRows, kCols, kCols}).ok());
    for (int64_t i = 0; rank == 0 && i < kRows * kCols; ++i)
      EXPECT_EQ(out[static_cast<size_t>(i)], static_cast<float>(100 * (i / kCols) + i % kCols));
    EXPECT_TRUE(communicator.Barrier().ok());
  });
}

TEST(GlooCommunicator, ASilentRankIsNamedWithinTheTimeout) {
  OnRanks(
      3,
      [&](int32_t rank, Communicator& communicator) {
        float value = 1;
        ASSERT_TRUE(communicator.AllReduceSum(&value, 1).ok());
        if (rank == 1) return absl::SleepFor(absl::Seconds(5));
        const absl::Time start = absl::Now();
        const absl::Status status = communicator.AllReduceSum(&value, 1);
        EXPECT_LT(absl::Now() - start, absl::Seconds(10));
        EXPECT_FALSE(status.ok());
        // Ranks 0 and 2 give up at the same time: either may see the other leave.
        EXPECT_THAT(std::string(status.message()), HasSubstr(" of 3 "));
        EXPECT_EQ(communicator.AllReduceSum(&value, 1), status) << "the group has ended";
      },
      absl::Seconds(2));
}

TEST(GlooCommunicator, ARankThatLeavesIsNoticedAtOnce) {
  OnRanks(2, [&](int32_t rank, Communicator& communicator) {
    ASSERT_TRUE(communicator.Barrier().ok());
    if (rank == 1) return;
    const absl::Time start = absl::Now();
    float value = 1;
    const absl::Status status = communicator.AllReduceSum(&value, 1);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 of 2 is gone"));
    EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  });
}

TEST(GlooCommunicator, AbortEndsACollectiveInProgress) {
  OnRanks(2, [&](int32_t rank, Communicator& communicator) {
    ASSERT_TRUE(communicator.Barrier().ok());
    if (rank == 1) return absl::SleepFor(absl::Seconds(1));
    std::thread aborting([&] {
      absl::SleepFor(absl::Milliseconds(100));
      communicator.Abort(absl::AbortedError("enough"));
    });
    float value = 1;
    EXPECT_EQ(communicator.AllReduceSum(&value, 1), absl::AbortedError("enough"));
    aborting.join();
    EXPECT_EQ(communicator.Barrier(), absl::AbortedError("enough"));
  });
}

TEST(GlooCommunicator, ARankThatNeverJoinsEndsTheFounding) {
  const auto offers = Offers(2, absl::Milliseconds(500));
  const absl::Time start = absl::Now();
  const auto alone = offers[0]->Join(AddressesOf(offers));
  EXPECT_FALSE(alone.ok());
  EXPECT_THAT(std::string(alone.status().message()), HasSubstr("rank 1 of 2"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
}

TEST(GlooCommunicator, RefusesWhatIsNoAddressOrInterface) {
  auto offers = Offers(2, absl::Seconds(1));
  EXPECT_THAT(std::string(offers[0]->Join({"", "x"}).status().message()),
              HasSubstr("address of rank 1, 1 bytes, has none for rank 0"));
  offers = Offers(2, absl::Seconds(1));
  EXPECT_THAT(std::string(offers[0]->Join({""}).status().message()),
              HasSubstr("1 communicator addresses for 2 ranks"));
  EXPECT_THAT(std::string(OfferGloo({.place = {0, 2}, .interface = "nosuch0"}).status().message()),
              HasSubstr("interface nosuch0"));
}

}  // namespace
}  // namespace octavo
