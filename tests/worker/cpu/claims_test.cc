#include "worker/cpu/claims.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(Claims, EachPieceOfAListIsTakenOnceByWhicheverThread) {
  constexpr int kThreads = 4;
  constexpr int64_t kLists = 3;
  constexpr int64_t kPieces = 1000;
  Claims claims;
  for (int round = 0; round < 5; ++round) {
    claims.Reset(kLists);
    std::vector<std::vector<int64_t>> taken(kThreads);
    std::vector<std::thread> threads;
    for (std::vector<int64_t>& mine : taken) {
      threads.emplace_back([&claims, &mine] {
        for (int64_t list = 0; list < kLists; ++list) {
          while (const auto piece = claims.Next(list, kPieces)) {
            mine.push_back(list * kPieces + *piece);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<int64_t> all;
    for (const std::vector<int64_t>& mine : taken) all.insert(all.end(), mine.begin(), mine.end());
    std::sort(all.begin(), all.end());
    ASSERT_EQ(all.size(), static_cast<size_t>(kLists * kPieces));
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<int64_t>(i));
  }
}

TEST(Claims, AnEmptyListHasNothingAndMoreListsMayComeLater) {
  Claims claims;
  claims.Reset(1);
  EXPECT_FALSE(claims.Next(0, 0).has_value());
  EXPECT_EQ(claims.Next(0, 1), 0);
  EXPECT_FALSE(claims.Next(0, 1).has_value());
  claims.Reset(2);
  EXPECT_EQ(claims.Next(0, 1), 0);
  EXPECT_EQ(claims.Next(1, 1), 0);
}

}  // namespace
}  // namespace octavo
