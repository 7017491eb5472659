#include "scheduler/engine/token_stream.h"

#include <memory>

#include "gtest/gtest.h"
#include "scheduler/engine/dispatcher.h"

namespace octavo {
namespace {

TEST(TokenStream, GivesEverythingOnceAndInOrder) {
  TokenStream stream(3, 1, [] {});
  stream.Admit();
  stream.Push({.request = 1, .token = 5});
  stream.Push({.request = 1, .token = 6});
  TokenStream::Batch batch = stream.Take();
  EXPECT_TRUE(batch.admitted);
  ASSERT_EQ(batch.tokens.size(), 2u);
  EXPECT_EQ(batch.tokens[0].token, 5);
  EXPECT_EQ(batch.tokens[1].token, 6);
  EXPECT_FALSE(batch.end.has_value());
  batch = stream.Take();
  EXPECT_FALSE(batch.admitted);
  EXPECT_TRUE(batch.tokens.empty());
}

TEST(TokenStream, TheFirstEndCounts) {
  TokenStream stream(3, 1, [] {});
  stream.End(absl::InternalError("first"));
  stream.End(absl::OkStatus());
  stream.Push({.request = 1, .token = 5});
  const TokenStream::Batch batch = stream.Take();
  EXPECT_EQ(batch.end, absl::InternalError("first"));
  EXPECT_TRUE(batch.tokens.empty());
}

TEST(TokenStream, LetsGoOfItsCallbackAfterTheEnd) {
  auto owned = std::make_shared<int>(0);
  TokenStream stream(3, 1, [owned] { ++*owned; });
  stream.Notify();
  EXPECT_EQ(*owned, 1);
  stream.End(absl::OkStatus());
  stream.Take();
  EXPECT_EQ(owned.use_count(), 1);
  stream.Notify();
  EXPECT_EQ(*owned, 1);
}

TEST(Dispatcher, NotifiesWhatWasPostedBeforeStop) {
  std::atomic<int> notified = 0;
  Dispatcher dispatcher;
  for (int i = 0; i < 100; ++i)
    dispatcher.Post(std::make_shared<TokenStream>(1, 1, [&notified] { ++notified; }));
  dispatcher.Stop();
  EXPECT_EQ(notified, 100);
}

}  // namespace
}  // namespace octavo
