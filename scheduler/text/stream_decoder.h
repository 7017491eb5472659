// Turns tokens into text as they arrive, never half a character.
#ifndef OCTAVO_SCHEDULER_TEXT_STREAM_DECODER_H_
#define OCTAVO_SCHEDULER_TEXT_STREAM_DECODER_H_

#include <string>

#include "common/ids.h"
#include "scheduler/text/tokenizer.h"

namespace octavo {

// The texts of all calls, concatenated, are what Tokenizer::Decode gives for all tokens. Each text
// is UTF-8 on its own. One thread at a time.
class StreamDecoder {
 public:
  // `tokenizer` must outlive the decoder.
  StreamDecoder(const Tokenizer* tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // The text that is final after this token; empty while a character is incomplete.
  std::string Push(TokenId token);

  // What is left at the end: U+FFFD for a cut character, or nothing. Starts over.
  std::string Finish();

  // Bytes held back: 0 to 3.
  size_t pending_bytes() const { return pending_.size(); }

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string pending_;  // the start of a character
};

}  // namespace octavo

#endif  // OCTAVO_SCHEDULER_TEXT_STREAM_DECODER_H_
