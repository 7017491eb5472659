#include "scheduler/text/jinja_text.h"

namespace octavo::jinja {

void Text::Buffer::Append(absl::string_view text, bool marked) {
  if (text.empty()) return;
  const bool now = flips.size() % 2 == 1;
  if (now != marked) flips.push_back(static_cast<uint32_t>(bytes.size()));
  bytes.append(text.data(), text.size());
}

Text::Text(absl::string_view bytes, bool marked) : size_(static_cast<uint32_t>(bytes.size())) {
  if (bytes.empty()) return;
  buffer_ = std::make_shared<Buffer>();
  buffer_->Append(bytes, marked);
}

Text Text::Literal(absl::string_view bytes) {
  Text text(bytes, false);
  if (text.buffer_ != nullptr) text.buffer_->frozen = true;
  return text;
}

bool Text::AnyMarked() const {
  if (size_ == 0 || buffer_->flips.empty()) return false;
  const std::vector<uint32_t>& flips = buffer_->flips;
  const auto next = std::upper_bound(flips.begin(), flips.end(), begin_);
  if ((next - flips.begin()) % 2 == 1) return true;
  return next != flips.end() && *next < begin_ + size_;
}

Text Text::Substr(size_t pos, size_t length) const {
  Text part = *this;
  part.begin_ += static_cast<uint32_t>(pos);
  part.size_ = static_cast<uint32_t>(std::min<size_t>(length, size_ - pos));
  return part;
}

Text Text::Concat(const Text& tail) const {
  if (tail.empty()) return *this;
  if (empty()) {
    Text whole = tail;
    whole.markup_ = markup_;
    return whole;
  }
  Text whole = *this;
  if (!ConcatsInPlace()) {
    TextBuilder copy;
    copy.Append(*this);
    whole = copy.Finish();
    whole.markup_ = markup_;
  }
  if (tail.buffer_ == whole.buffer_) {  // growing the buffer would move the runs being read
    TextBuilder copy;
    copy.Append(tail);
    return whole.Concat(copy.Finish());
  }
  tail.ForEachRun(
      [&](absl::string_view bytes, bool marked) { whole.buffer_->Append(bytes, marked); });
  whole.size_ += tail.size_;
  return whole;
}

Text Text::AsMarkup() const {
  Text text = *this;
  text.markup_ = true;
  return text;
}

void TextBuilder::Append(const Text& text) {
  text.ForEachRun([&](absl::string_view bytes, bool marked) { buffer_->Append(bytes, marked); });
}

Text TextBuilder::Finish() {
  Text text;
  text.size_ = static_cast<uint32_t>(buffer_->bytes.size());
  if (text.size_ > 0) text.buffer_ = std::move(buffer_);
  return text;
}

}  // namespace octavo::jinja
