// Token events of a request as messages of its stream.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_ANSWER_WRITER_H_
#define OCTAVO_SCHEDULER_TRANSPORT_ANSWER_WRITER_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "octavo/v1/generation.pb.h"
#include "scheduler/core/request.h"
#include "scheduler/engine/token_stream.h"
#include "scheduler/text/stream_decoder.h"
#include "scheduler/text/tokenizer.h"
#include "scheduler/transport/best_of.h"

namespace octavo {

// Which part of what a request generates its client gets.
struct AnswerShape {
  int32_t choices = 1;    // returned
  int32_t generated = 1;  // choices of which those are the best
  bool logprobs = false;  // whether the client asked for them
  bool scores = false;    // of the hypotheses of a beam search
};

// One thread at a time.
class AnswerWriter {
 public:
  // Clients bound the size of a message; one with 20 alternatives to each token stays below 256
  // KiB.
  static constexpr int kMaxTokensOfAMessage = 512;

  // `tokenizer` outlives the writer.
  AnswerWriter(const Tokenizer* tokenizer, std::string request_id, uint64_t seed,
               const AnswerShape& shape);

  // Adds what `events` (in order per choice) say to `messages`, those that were not sent yet:
  // scores of the prompt first, then as few messages as hold them, each of one choice. The last one
  // of a choice brings its finish reason and usage. The text of the token that ended generation is
  // hidden.
  void Write(std::vector<TokenEvent> events, const StreamTimes& times,
             std::deque<v1::GenerateResponse>* messages);

 private:
  void WriteScores(const std::vector<ScoredToken>& scores,
                   std::deque<v1::GenerateResponse>* messages) const;
  void WriteToken(const TokenEvent& event, v1::GenerateResponse* message);
  void WriteEnd(const TokenEvent& event, const StreamTimes& times, v1::GenerateResponse* message);

  const std::string request_id_;
  const uint64_t seed_;
  const bool logprobs_;
  const bool scores_;
  std::vector<StreamDecoder> decoders_;  // by choice
  std::optional<BestOf> best_of_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_ANSWER_WRITER_H_
