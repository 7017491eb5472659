// Scores of known tokens (step.h) to messages and back; the rules of step_codec.h hold.
#ifndef OCTAVO_COMMON_RPC_SCORE_CODEC_H_
#define OCTAVO_COMMON_RPC_SCORE_CODEC_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/rpc/step_codec.h"
#include "common/step.h"
#include "octavo/worker/v1/worker.pb.h"

namespace octavo {

using TopLogprobMessages = google::protobuf::RepeatedPtrField<worker::v1::TokenLogprob>;

void EncodeTop(const std::vector<TokenLogprob>& top, TopLogprobMessages* out);
// At most `most` of them.
absl::StatusOr<std::vector<TokenLogprob>> DecodeTop(const TopLogprobMessages& messages,
                                                    int32_t most, const StepLimits& limits);

void EncodeScore(const ScoreRows& score, worker::v1::ScoreRows* out);
// Also refuses rows that `slice` does not have. REQUIRES: its tokens are decoded.
absl::StatusOr<ScoreRows> DecodeScore(const worker::v1::ScoreRows& message, const SeqSlice& slice,
                                      const StepLimits& limits);

void EncodeScores(const std::vector<SliceScores>& scores, worker::v1::StepResult* out);
absl::StatusOr<std::vector<SliceScores>> DecodeScores(const worker::v1::StepResult& message,
                                                      const StepLimits& limits);

}  // namespace octavo

#endif  // OCTAVO_COMMON_RPC_SCORE_CODEC_H_
