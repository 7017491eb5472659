// Strings of the template interpreter: immutable UTF-8 in which every byte is either plain or
// marked. Marked bytes came from the request; the tokenizer must not see special tokens in them.
//
// Operations that map bytes one to one keep each byte's mark: concatenation, slices, strip, split,
// join, reverse, printing a string. Everything else that derives text from text (case mapping,
// replace, tojson, repr, formatting, escaping, indent, ...) marks its whole result as soon as one
// input byte is marked. Numbers, booleans and lengths carry no mark.
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_TEXT_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_TEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace octavo::jinja {

// A view into a shared buffer, so slices cost nothing. Not thread-safe, except that literals may be
// shared by renders on several threads: nobody appends to their buffers.
class Text {
 public:
  Text() = default;
  Text(absl::string_view bytes, bool marked);

  // A plain string that outlives a render: part of a template.
  static Text Literal(absl::string_view bytes);

  absl::string_view view() const {
    return buffer_ == nullptr ? absl::string_view()
                              : absl::string_view(buffer_->bytes).substr(begin_, size_);
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool AnyMarked() const;

  // REQUIRES: pos <= size().
  Text Substr(size_t pos, size_t length = std::string::npos) const;

  // this + tail. When this is the end of its buffer, the tail is appended in place: a chain of
  // concatenations costs its length, not its square.
  Text Concat(const Text& tail) const;
  // Whether Concat(tail) copies the tail only.
  bool ConcatsInPlace() const {
    return buffer_ != nullptr && !buffer_->frozen && begin_ + size_ == buffer_->bytes.size();
  }

  // Calls visit(bytes, marked) for each maximal run of one mark.
  template <typename Visit>
  void ForEachRun(Visit visit) const {
    if (size_ == 0) return;
    const std::vector<uint32_t>& flips = buffer_->flips;
    auto next = std::upper_bound(flips.begin(), flips.end(), begin_);
    uint32_t at = begin_;
    const uint32_t end = begin_ + size_;
    while (at < end) {
      const bool marked = (next - flips.begin()) % 2 == 1;
      const uint32_t stop = next == flips.end() ? end : std::min(*next, end);
      visit(absl::string_view(buffer_->bytes).substr(at, stop - at), marked);
      at = stop;
      if (next != flips.end()) ++next;
    }
  }

  // Markup of Jinja's `safe` and `escape` filters: + escapes its other operand.
  bool is_markup() const { return markup_; }
  Text AsMarkup() const;

 private:
  friend class TextBuilder;

  struct Buffer {
    std::string bytes;
    std::vector<uint32_t> flips;  // ascending offsets at which the mark changes; plain at first
    bool frozen = false;

    void Append(absl::string_view text, bool marked);
  };

  std::shared_ptr<Buffer> buffer_;
  uint32_t begin_ = 0;
  uint32_t size_ = 0;
  bool markup_ = false;
};

// Collects output.
class TextBuilder {
 public:
  TextBuilder() : buffer_(std::make_shared<Text::Buffer>()) {}

  void Append(absl::string_view bytes, bool marked) { buffer_->Append(bytes, marked); }
  void Append(const Text& text);
  size_t size() const { return buffer_->bytes.size(); }
  // REQUIRES: nothing is appended afterwards.
  Text Finish();

 private:
  std::shared_ptr<Text::Buffer> buffer_;
};

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_TEXT_H_
