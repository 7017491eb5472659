#include "scheduler/core/beam.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/sampling_params.h"

namespace octavo {

absl::Status Validate(const BeamParams& params) {
  if (params.width < 1 || params.width > kMaxBeamWidth) {
    return absl::InvalidArgumentError(
        absl::StrCat("beam width is ", params.width, "; it must be in [1, ", kMaxBeamWidth, "]"));
  }
  if (!(std::abs(params.length_penalty) <= kMaxLengthPenalty)) {
    return absl::InvalidArgumentError(absl::StrCat("length_penalty is ", params.length_penalty,
                                                   "; it must be in [-", kMaxLengthPenalty, ", ",
                                                   kMaxLengthPenalty, "]"));
  }
  return absl::OkStatus();
}

int32_t BeamLogprobs(const BeamParams& params, size_t end_tokens) {
  const auto spare = static_cast<int32_t>(std::min<size_t>(end_tokens, kMaxStepLogprobs));
  return std::min(params.width + std::max(params.width, spare), kMaxStepLogprobs);
}

absl::Status CheckBeamAnswer(const SampledToken& sample, int32_t most, int32_t vocab_size) {
  const auto error = [&sample](auto... parts) {
    return absl::InvalidArgumentError(absl::StrCat("beam ", sample.sequence, ": ", parts...));
  };
  const std::vector<TokenLogprob>& top = sample.top;
  if (top.empty() || top.size() > static_cast<size_t>(most)) {
    return error("got ", top.size(), " log-probabilities; expected 1 to ", most);
  }
  std::vector<TokenId> tokens;
  tokens.reserve(top.size());
  for (size_t i = 0; i < top.size(); ++i) {
    if (top[i].token < 0 || top[i].token >= vocab_size) {
      return error("token ", top[i].token, "; ids are in [0, ", vocab_size, ")");
    }
    if (!std::isfinite(top[i].logprob) || (i > 0 && top[i].logprob > top[i - 1].logprob)) {
      return error("log-probability ", i, " is ", top[i].logprob, "; they must be finite and fall");
    }
    tokens.push_back(top[i].token);
  }
  std::sort(tokens.begin(), tokens.end());
  const auto twice = std::adjacent_find(tokens.begin(), tokens.end());
  if (twice != tokens.end()) return error("token ", *twice, " is there twice");
  return absl::OkStatus();
}

BeamSearch::BeamSearch(const BeamParams& params, int32_t max_tokens,
                       std::vector<TokenId> end_tokens)
    : params_(params), max_tokens_(max_tokens), end_tokens_(std::move(end_tokens)) {}

void BeamSearch::RankCandidates(std::span<const std::vector<TokenLogprob>* const> tops) {
  candidates_.clear();
  size_t ending = 0;
  for (size_t beam = 0; beam < tops.size(); ++beam) {
    for (const TokenLogprob& top : *tops[beam]) {
      const bool ends =
          std::find(end_tokens_.begin(), end_tokens_.end(), top.token) != end_tokens_.end();
      ending += ends ? 1 : 0;
      candidates_.push_back({.beam = static_cast<int32_t>(beam),
                             .token = top.token,
                             .logprob = top.logprob,
                             .sum = live_[beam].sum + double{top.logprob},
                             .ends = ends});
    }
  }
  // The best `width` of those that do not end are among these.
  const size_t ranked = std::min(static_cast<size_t>(params_.width) + ending, candidates_.size());
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<int64_t>(ranked),
                    candidates_.end(), [](const Candidate& a, const Candidate& b) {
                      if (a.sum != b.sum) return a.sum > b.sum;
                      return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
                    });
  candidates_.resize(ranked);
}

int32_t BeamSearch::AddNode(const Candidate& candidate) {
  nodes_.push_back(
      {live_[static_cast<size_t>(candidate.beam)].node, candidate.token, candidate.logprob});
  return static_cast<int32_t>(nodes_.size()) - 1;
}

void BeamSearch::Finish(const Candidate& candidate) {
  const double score = candidate.sum / std::pow(length_, params_.length_penalty);
  const auto at = std::find_if(done_.begin(), done_.end(),
                               [score](const Done& done) { return score > done.score; });
  if (at == done_.end() && done_.size() == static_cast<size_t>(params_.width)) return;
  done_.insert(at, {AddNode(candidate), score, candidate.ends});
  if (done_.size() > static_cast<size_t>(params_.width)) done_.pop_back();
}

std::vector<BeamSearch::Survivor> BeamSearch::Advance(
    std::span<const std::vector<TokenLogprob>* const> tops) {
  OCTAVO_CHECK(tops.size() == live_.size(), "lists=", tops.size(), " live=", live_.size());
  RankCandidates(tops);
  ++length_;
  const size_t width = static_cast<size_t>(params_.width);
  const bool last = length_ == max_tokens_;
  std::vector<Survivor> survivors;
  std::vector<Live> live;
  for (size_t rank = 0; rank < candidates_.size() && live.size() < width; ++rank) {
    const Candidate& candidate = candidates_[rank];
    if (candidate.ends || last) {
      if (rank < width) Finish(candidate);
      continue;
    }
    live.push_back({AddNode(candidate), candidate.sum});
    survivors.push_back({candidate.beam, candidate.token});
  }
  live_ = std::move(live);
  if (Stops()) {
    live_.clear();
    survivors.clear();
  }
  return survivors;
}

bool BeamSearch::Stops() const {
  if (live_.empty()) return true;
  if (done_.size() < static_cast<size_t>(params_.width)) return false;
  if (params_.early_stopping == EarlyStopping::kTrue) return true;
  // Sums only fall. Where longer ones are favoured, the longest is the best that a beam can become.
  const bool longest =
      params_.early_stopping == EarlyStopping::kNever && params_.length_penalty > 0;
  const double reach = std::pow(longest ? max_tokens_ : length_, params_.length_penalty);
  return live_.front().sum / reach <= done_.back().score;
}

std::vector<Hypothesis> BeamSearch::Finished() const {
  std::vector<Hypothesis> hypotheses;
  for (const Done& done : done_) {
    Hypothesis& hypothesis = hypotheses.emplace_back();
    hypothesis.score = done.score;
    hypothesis.stopped = done.stopped;
    for (int32_t node = done.node; node >= 0; node = nodes_[static_cast<size_t>(node)].parent) {
      hypothesis.tokens.push_back(nodes_[static_cast<size_t>(node)].token);
      hypothesis.logprobs.push_back(nodes_[static_cast<size_t>(node)].logprob);
    }
    std::reverse(hypothesis.tokens.begin(), hypothesis.tokens.end());
    std::reverse(hypothesis.logprobs.begin(), hypothesis.logprobs.end());
  }
  return hypotheses;
}

}  // namespace octavo
