// Token events of one choice as messages of its stream.
#ifndef OCTAVO_SCHEDULER_TRANSPORT_ANSWER_WRITER_H_
#define OCTAVO_SCHEDULER_TRANSPORT_ANSWER_WRITER_H_

#include <string>
#include <vector>

#include "octavo/v1/generation.pb.h"
#include "scheduler/core/request.h"
#include "scheduler/engine/token_stream.h"
#include "scheduler/text/stream_decoder.h"
#include "scheduler/text/tokenizer.h"

namespace octavo {

// One thread at a time.
class AnswerWriter {
 public:
  // `tokenizer` outlives the writer.
  AnswerWriter(const Tokenizer* tokenizer, std::string request_id, const SamplingParams& sampling);

  // Replaces `message` by the next one: all of `events` (of one choice, in order). The last event
  // of the choice brings finish reason and usage. The text of the token that ended generation is
  // hidden.
  void Write(const std::vector<TokenEvent>& events, const StreamTimes& times,
             v1::GenerateResponse* message);

 private:
  void WriteToken(const TokenEvent& event, v1::GenerateResponse* message);
  void WriteEnd(const TokenEvent& event, const StreamTimes& times, v1::GenerateResponse* message);

  StreamDecoder decoder_;
  const std::string request_id_;
  const SamplingParams sampling_;
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TRANSPORT_ANSWER_WRITER_H_
