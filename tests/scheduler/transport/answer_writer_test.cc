#include "scheduler/transport/answer_writer.h"

#include <deque>
#include <vector>

#include "gtest/gtest.h"
#include "tests/scheduler/transport/hash_model.h"

namespace octavo {
namespace {

TokenEvent Token(int32_t choice, TokenId token) {
  TokenEvent event;
  event.choice_index = choice;
  event.token = token;
  return event;
}

TEST(AnswerWriter, WhatWasNotSentYetTakesMore) {
  const ServedModel model = MakeHashModel();
  AnswerWriter writer(model.tokenizer.get(), "r", 1, {.choices = 2, .generated = 2});
  std::deque<v1::GenerateResponse> messages;
  writer.Write({Token(0, 1), Token(1, 2)}, {}, &messages);
  writer.Write({Token(1, 3)}, {}, &messages);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].token_ids_size(), 1);
  EXPECT_EQ(messages[1].token_ids_size(), 2);
  EXPECT_EQ(messages[1].text(), model.tokenizer->Decode(std::vector<TokenId>{2, 3}, true));
  messages.pop_back();  // sent
  TokenEvent last = Token(1, 4);
  last.finish = FinishReason::kLength;
  writer.Write({Token(0, 5), last}, {}, &messages);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].text(), model.tokenizer->Decode(std::vector<TokenId>{1, 5}, true));
  EXPECT_EQ(messages[1].index(), 1u);
  EXPECT_EQ(messages[1].token_ids_size(), 1);
  EXPECT_EQ(messages[1].finish_reason(), v1::FINISH_REASON_LENGTH);
}

TEST(AnswerWriter, AMessageIsFullAfterItsBoundOfTokens) {
  const ServedModel model = MakeHashModel();
  AnswerWriter writer(model.tokenizer.get(), "r", 1, {});
  std::deque<v1::GenerateResponse> messages;
  for (int i = 0; i < AnswerWriter::kMaxTokensOfAMessage + 1; ++i)
    writer.Write({Token(0, 1)}, {}, &messages);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].token_ids_size(), AnswerWriter::kMaxTokensOfAMessage);
  EXPECT_EQ(messages[1].token_ids_size(), 1);
}

TEST(AnswerWriter, ScoresOfThePromptStayApartFromTokens) {
  const ServedModel model = MakeHashModel();
  AnswerWriter writer(model.tokenizer.get(), "r", 1, {});
  std::deque<v1::GenerateResponse> messages;
  TokenEvent scores;
  scores.prompt_logprobs.push_back({.token = 1, .logprob = -1});
  writer.Write({scores}, {}, &messages);
  writer.Write({Token(0, 1)}, {}, &messages);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].prompt_logprobs_size(), 1);
  EXPECT_EQ(messages[0].token_ids_size(), 0);
  EXPECT_EQ(messages[1].token_ids_size(), 1);
}

}  // namespace
}  // namespace octavo
