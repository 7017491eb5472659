#include "scheduler/text/stream_decoder.h"

#include "scheduler/text/utf8.h"

namespace octavo {

std::string StreamDecoder::Push(TokenId token) {
  std::string text;
  if (skip_special_ && tokenizer_->IsSpecial(token)) return text;
  const absl::string_view bytes = tokenizer_->BytesOf(token);
  pending_.append(bytes.data(), bytes.size());
  const size_t rest = AppendUtf8Prefix(pending_, &text);
  pending_.erase(0, pending_.size() - rest);
  return text;
}

std::string StreamDecoder::Finish() {
  std::string text = RepairUtf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace octavo
