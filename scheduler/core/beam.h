// The rule of beam search: which continuations live on, which are finished, when it ends.
#ifndef OCTAVO_SCHEDULER_CORE_BEAM_H_
#define OCTAVO_SCHEDULER_CORE_BEAM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/step.h"

namespace octavo {

inline constexpr int32_t kMaxBeamWidth = 32;
inline constexpr double kMaxLengthPenalty = 10;

enum class EarlyStopping {
  kFalse,  // when the best live beam, at its present length, is no better than the worst finished
  kTrue,   // as soon as `width` hypotheses are finished
  kNever,  // as kFalse, but with the longest length it may reach when that helps it
};

struct BeamParams {
  int32_t width = 1;          // [1, kMaxBeamWidth] live beams
  double length_penalty = 1;  // score = sum of log-probabilities / length ^ length_penalty
  EarlyStopping early_stopping = EarlyStopping::kFalse;
};

// INVALID_ARGUMENT naming the field, its value and its limit.
absl::Status Validate(const BeamParams& params);

// How many of the most likely tokens the rule looks at after each live beam: enough for `width`
// that do not end generation, and in [1, kMaxStepLogprobs].
int32_t BeamLogprobs(const BeamParams& params, size_t end_tokens);

// INVALID_ARGUMENT unless a worker's `sample` has what may follow one beam: 1 to `most` different
// tokens, most likely first.
absl::Status CheckBeamAnswer(const SampledToken& sample, int32_t most, int32_t vocab_size);

// A finished output.
struct Hypothesis {
  std::vector<TokenId> tokens;  // an end-of-generation token included
  std::vector<float> logprobs;  // of each token
  double score = 0;
  bool stopped = false;  // by an end-of-generation token; otherwise by its length
};

// Hugging Face's semantics (transformers, `_beam_search`). All continuations of all live beams are
// ranked by their sum of log-probabilities; equal ones by beam, then by token id. An
// end-of-generation token finishes a hypothesis when it is among the best `width`; the best `width`
// others live on. At `max_tokens` the best `width` are finished whatever they are. The best `width`
// finished ones are kept, by score; of equal ones those that finished first.
class BeamSearch {
 public:
  // `end_tokens`: no duplicates.
  BeamSearch(const BeamParams& params, int32_t max_tokens, std::vector<TokenId> end_tokens);

  // A live beam after a step: `token` after what the beam of rank `parent` was before.
  struct Survivor {
    int32_t parent = 0;
    TokenId token = 0;
  };

  // `tops[i]`: the BeamLogprobs most likely tokens after the live beam of rank i, most likely
  // first. At first there is one beam, of no tokens. Returns the live beams in order of rank, none
  // when the search has ended.
  // REQUIRES: !ended() and one list for each live beam.
  std::vector<Survivor> Advance(std::span<const std::vector<TokenLogprob>* const> tops);

  bool ended() const { return live_.empty(); }
  int32_t num_live() const { return static_cast<int32_t>(live_.size()); }
  int32_t length() const { return length_; }  // tokens of each live beam
  // The finished hypotheses, best first; at most `width`.
  std::vector<Hypothesis> Finished() const;

 private:
  // Outputs form a tree; a beam is the way from a node to the root.
  struct Node {
    int32_t parent = -1;
    TokenId token = 0;
    float logprob = 0;
  };
  struct Live {
    int32_t node = -1;
    double sum = 0;
  };
  struct Done {
    int32_t node = -1;
    double score = 0;
    bool stopped = false;
  };
  struct Candidate {
    int32_t beam = 0;
    TokenId token = 0;
    float logprob = 0;
    double sum = 0;
    bool ends = false;
  };

  void RankCandidates(std::span<const std::vector<TokenLogprob>* const> tops);
  int32_t AddNode(const Candidate& candidate);
  void Finish(const Candidate& candidate);
  bool Stops() const;

  const BeamParams params_;
  const int32_t max_tokens_;
  const std::vector<TokenId> end_tokens_;
  int32_t length_ = 0;
  std::vector<Live> live_ = {Live{}};
  std::vector<Done> done_;             // best first
  std::vector<Node> nodes_;            // at most 2 x width for each token of the length
  std::vector<Candidate> candidates_;  // scratch; best first, as far as they matter
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_CORE_BEAM_H_
