#include "scheduler/engine/mailbox.h"

#include <thread>

#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(Mailbox, NumbersRequestsInOrderAndRefusesBeyondItsBound) {
  Mailbox mailbox(2);
  EXPECT_EQ(mailbox.TryAdd({}), 1u);
  EXPECT_EQ(mailbox.TryAdd({}), 2u);
  EXPECT_EQ(mailbox.TryAdd({}), std::nullopt);
  Mailbox::Batch batch;
  mailbox.Wait(absl::InfiniteDuration(), &batch);
  ASSERT_EQ(batch.adds.size(), 2u);
  EXPECT_EQ(batch.adds[1].request.id, 2u);
  EXPECT_EQ(mailbox.TryAdd({}), 3u);
}

TEST(Mailbox, KeepsOneAbortPerRequest) {
  Mailbox mailbox(2);
  for (int i = 0; i < 1000; ++i) mailbox.Abort(7);
  mailbox.Abort(8);
  Mailbox::Batch batch;
  mailbox.Wait(absl::InfiniteDuration(), &batch);
  EXPECT_EQ(batch.aborts, (std::vector<RequestId>{7, 8}));
  mailbox.Abort(7);
  mailbox.Wait(absl::InfiniteDuration(), &batch);
  EXPECT_EQ(batch.aborts, (std::vector<RequestId>{7}));
}

TEST(Mailbox, QuestionsAreBoundedAndRefusedOnceClosed) {
  Mailbox mailbox(2);
  for (size_t i = 0; i < Mailbox::kMaxQuestions; ++i) EXPECT_TRUE(mailbox.TryAsk({}));
  EXPECT_FALSE(mailbox.TryAsk({}));
  Mailbox::Batch batch;
  mailbox.Wait(absl::InfiniteDuration(), &batch);
  EXPECT_EQ(batch.questions.size(), Mailbox::kMaxQuestions);
  EXPECT_TRUE(mailbox.TryAsk({}));
  mailbox.Close();
  EXPECT_FALSE(mailbox.TryAsk({}));
}

TEST(Mailbox, WaitEndsWithMailOrTime) {
  Mailbox mailbox(2);
  Mailbox::Batch batch;
  mailbox.Wait(absl::Milliseconds(5), &batch);
  EXPECT_TRUE(batch.results.empty());
  std::thread sender([&mailbox] { mailbox.Result({.epoch = 1, .step = 4}); });
  mailbox.Wait(absl::InfiniteDuration(), &batch);
  sender.join();
  ASSERT_EQ(batch.results.size(), 1u);
  EXPECT_EQ(batch.results[0].step, 4u);
  mailbox.Close();
  mailbox.Wait(absl::InfiniteDuration(), &batch);
  EXPECT_TRUE(batch.closed);
  EXPECT_EQ(mailbox.TryAdd({}), std::nullopt);
}

}  // namespace
}  // namespace octavo
