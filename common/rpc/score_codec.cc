#include "common/rpc/score_codec.h"

#include "absl/strings/str_cat.h"
#include "common/rpc/decode_limits.h"
#include "common/status_macros.h"

namespace octavo {

void EncodeTop(const std::vector<TokenLogprob>& top, TopLogprobMessages* out) {
  out->Reserve(static_cast<int>(top.size()));
  for (const TokenLogprob& entry : top) {
    auto* to = out->Add();
    to->set_token(static_cast<uint32_t>(entry.token));
    to->set_logprob(entry.logprob);
  }
}

absl::StatusOr<std::vector<TokenLogprob>> DecodeTop(const TopLogprobMessages& messages,
                                                    int32_t most, const StepLimits& limits) {
  OCTAVO_RETURN_IF_ERROR(CountWithin("logprobs", messages.size(), most));
  std::vector<TokenLogprob> top;
  top.reserve(static_cast<size_t>(messages.size()));
  for (const auto& message : messages) {
    OCTAVO_ASSIGN_OR_RETURN(const TokenId token,
                            InRange("token id", message.token(), 0, limits.vocab_size - 1));
    top.push_back({token, message.logprob()});
  }
  return top;
}

void EncodeScore(const ScoreRows& score, worker::v1::ScoreRows* out) {
  out->set_first_row(static_cast<uint32_t>(score.first_row));
  out->mutable_targets()->Add(score.targets.begin(), score.targets.end());
  out->set_num_top(static_cast<uint32_t>(score.num_top));
}

absl::StatusOr<ScoreRows> DecodeScore(const worker::v1::ScoreRows& message, const SeqSlice& slice,
                                      const StepLimits& limits) {
  ScoreRows score;
  OCTAVO_ASSIGN_OR_RETURN(
      score.first_row, InRange("first scored row", message.first_row(), 0, slice.num_tokens - 1));
  OCTAVO_ASSIGN_OR_RETURN(score.num_top,
                          InRange("num_top of scores", message.num_top(), 0, kMaxTopLogprobs));
  if (message.targets_size() == 0 || slice.feed_sampled)
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", slice.sequence, " wants scores of ", message.targets_size(),
                     " tokens", slice.feed_sampled ? " after what it sampled" : ""));
  OCTAVO_RETURN_IF_ERROR(
      CountWithin("scored rows", message.targets_size(), slice.num_tokens - score.first_row));
  score.targets.reserve(static_cast<size_t>(message.targets_size()));
  for (const uint32_t token : message.targets()) {
    OCTAVO_ASSIGN_OR_RETURN(const TokenId id,
                            InRange("scored token", token, 0, limits.vocab_size - 1));
    score.targets.push_back(id);
  }
  return score;
}

void EncodeScores(const std::vector<SliceScores>& scores, worker::v1::StepResult* out) {
  for (const SliceScores& slice : scores) {
    auto* to = out->add_scores();
    to->set_sequence(slice.sequence);
    to->mutable_tokens()->Reserve(static_cast<int>(slice.tokens.size()));
    for (const ScoredToken& scored : slice.tokens) {
      auto* token = to->add_tokens();
      token->set_token(static_cast<uint32_t>(scored.token));
      token->set_logprob(scored.logprob);
      EncodeTop(scored.top, token->mutable_top());
    }
  }
}

absl::StatusOr<std::vector<SliceScores>> DecodeScores(const worker::v1::StepResult& message,
                                                      const StepLimits& limits) {
  OCTAVO_RETURN_IF_ERROR(CountWithin("scored slices", message.scores_size(), limits.max_num_seqs));
  std::vector<SliceScores> scores;
  scores.reserve(static_cast<size_t>(message.scores_size()));
  int64_t tokens = 0;
  for (const auto& slice : message.scores()) {
    SliceScores& to = scores.emplace_back();
    to.sequence = slice.sequence();
    tokens += slice.tokens_size();
    OCTAVO_RETURN_IF_ERROR(CountWithin("scored tokens", tokens, limits.max_num_batched_tokens));
    to.tokens.reserve(static_cast<size_t>(slice.tokens_size()));
    for (const auto& scored : slice.tokens()) {
      ScoredToken& token = to.tokens.emplace_back();
      OCTAVO_ASSIGN_OR_RETURN(token.token,
                              InRange("scored token", scored.token(), 0, limits.vocab_size - 1));
      token.logprob = scored.logprob();
      OCTAVO_ASSIGN_OR_RETURN(token.top, DecodeTop(scored.top(), kMaxTopLogprobs, limits));
    }
  }
  return scores;
}

}  // namespace octavo
