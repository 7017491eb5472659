#include "scheduler/text/jinja_lexer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_literals.h"
#include "scheduler/text/jinja_unicode.h"
#include "scheduler/text/utf8.h"

namespace octavo::jinja {
namespace {

// Line breaks become '\n'; one at the very end is dropped.
std::string NormalizeLines(absl::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) OCTAVO_RETURN_IF_ERROR(LexRoot());
    Push(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  absl::string_view Rest() const { return absl::string_view(source_).substr(at_); }
  bool StartsWith(absl::string_view prefix) const { return absl::StartsWith(Rest(), prefix); }

  void Push(TokenType type, absl::string_view text) {
    Token token;
    token.type = type;
    token.text = std::string(text);
    token.line = line_;
    tokens_.push_back(std::move(token));
  }

  // Moves past `length` bytes and counts their lines.
  void Advance(size_t length) {
    const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(at_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<std::ptrdiff_t>(length), '\n'));
    at_ += length;
    if (length > 0) line_starting_ = source_[at_ - 1] == '\n';
  }

  // The text that stays of `text` in front of a tag with the given sign ('-', '+' or 0).
  absl::string_view StripBeforeTag(absl::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return text.substr(0, text.size() - TrailingSpace(text));
    if (sign == '+' || is_variable) return text;
    const size_t newline = text.rfind('\n');
    const size_t line_start = newline == absl::string_view::npos ? 0 : newline + 1;
    const bool starts_line = line_start > 0 || line_starting_;
    const absl::string_view head = text.substr(line_start);
    const bool blank = !head.empty() && LeadingSpace(head) == head.size();
    return starts_line && blank ? text.substr(0, line_start) : text;
  }

  // Data up to the next tag, then the tag's opening.
  absl::Status LexRoot() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 == source_.size()) {
        Push(TokenType::kData, Rest());
        Advance(source_.size() - at_);
        return absl::OkStatus();
      }
      const char kind = source_[tag + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char after = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const char sign = after == '-' || after == '+' ? after : '\0';
    const absl::string_view text = absl::string_view(source_).substr(at_, tag - at_);
    const absl::string_view kept = StripBeforeTag(text, sign, kind == '{');
    if (!kept.empty()) Push(TokenType::kData, kept);
    Advance(tag - at_);
    const size_t opening = sign == '\0' ? 2 : 3;
    if (kind == '#') return LexComment(opening);
    if (kind == '%') {
      if (const size_t raw = RawTagLength(opening, "raw", false); raw > 0) return LexRaw(raw);
    }
    Push(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin, "");
    Advance(opening);
    return LexExpression(kind == '{');
  }

  // Length of a closing tag at `at` ("%}", "-%}", "+%}") with the white space it takes; 0 if none.
  size_t ClosingLength(size_t at, char kind, bool trims_newline, bool allows_plus) const {
    const absl::string_view rest = absl::string_view(source_).substr(at);
    const std::string close = {kind, '}'};
    if (absl::StartsWith(rest, close)) {
      return trims_newline && rest.size() > 2 && rest[2] == '\n' ? 3 : 2;
    }
    if (rest.size() < 3 || rest.substr(1, 2) != close) return 0;
    if (rest[0] == '-') return 3 + LeadingSpace(rest.substr(3));
    return rest[0] == '+' && allows_plus ? 3 : 0;
  }

  absl::Status LexComment(size_t opening) {
    const int line = line_;
    for (size_t at = at_ + opening; at < source_.size(); ++at) {
      if (const size_t closing = ClosingLength(at, '#', true, true); closing > 0) {
        Advance(at + closing - at_);
        return absl::OkStatus();
      }
    }
    return SyntaxError(line, "missing end of comment tag");
  }

  // Length of "{% name %}" at the current tag, whose opening has `opening` bytes; 0 if it is not
  // one.
  size_t RawTagLength(size_t opening, absl::string_view name, bool trims_newline) const {
    absl::string_view rest = Rest().substr(opening);
    size_t length = opening + LeadingSpace(rest);
    if (!absl::StartsWith(Rest().substr(length), name)) return 0;
    length += name.size();
    length += LeadingSpace(Rest().substr(length));
    const size_t closing = ClosingLength(at_ + length, '%', trims_newline, trims_newline);
    return closing == 0 ? 0 : length + closing;
  }

  absl::Status LexRaw(size_t opening) {
    const int line = line_;
    Advance(opening);
    const size_t begin = at_;
    const bool line_starting = line_starting_;
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      at_ = tag;
      const char after = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      const char sign = after == '-' || after == '+' ? after : '\0';
      const size_t closing = RawTagLength(sign == '\0' ? 2 : 3, "endraw", true);
      if (closing == 0) continue;
      at_ = begin;
      line_starting_ = line_starting;
      const absl::string_view text = absl::string_view(source_).substr(begin, tag - begin);
      const absl::string_view kept = StripBeforeTag(text, sign, false);
      if (!kept.empty()) Push(TokenType::kData, kept);
      Advance(tag - begin + closing);
      return absl::OkStatus();
    }
    return SyntaxError(line, "missing end of raw directive");
  }

  // Tokens of one tag, its closing included.
  absl::Status LexExpression(bool is_variable) {
    std::string open;  // closing brackets that are still due
    while (at_ < source_.size()) {
      if (open.empty()) {
        const size_t closing = is_variable ? ClosingLength(at_, '}', false, false)
                                           : ClosingLength(at_, '%', true, true);
        if (closing > 0) {
          Push(is_variable ? TokenType::kVariableEnd : TokenType::kBlockEnd, "");
          Advance(closing);
          return absl::OkStatus();
        }
      }
      OCTAVO_RETURN_IF_ERROR(LexToken(&open));
    }
    return SyntaxError(line_, is_variable ? "unexpected end of template, expected }}"
                                          : "unexpected end of template, expected %}");
  }

  absl::Status LexToken(std::string* open) {
    if (const size_t space = LeadingSpace(Rest()); space > 0) {
      Advance(space);
      return absl::OkStatus();
    }
    const char c = source_[at_];
    if (c == '"' || c == '\'') return LexString();
    // "a.0.1" has two integer subscripts: no float starts after a dot.
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (const size_t length = FloatLength(Rest()); length > 0 && !after_dot) {
      Push(TokenType::kFloat, Rest().substr(0, length));
      OCTAVO_RETURN_IF_ERROR(AtLine(ParseFloat(tokens_.back().text, &tokens_.back().floating)));
      Advance(length);
      return absl::OkStatus();
    }
    if (const size_t length = IntegerLength(Rest()); length > 0) {
      Push(TokenType::kInteger, Rest().substr(0, length));
      OCTAVO_RETURN_IF_ERROR(AtLine(ParseInteger(tokens_.back().text, &tokens_.back().integer)));
      Advance(length);
      return absl::OkStatus();
    }
    if (const size_t length = NameLength(Rest()); length > 0) {
      Push(TokenType::kName, Rest().substr(0, length));
      Advance(length);
      return absl::OkStatus();
    }
    return LexOperator(open);
  }

  absl::Status AtLine(const absl::Status& status) const {
    return status.ok() ? status : SyntaxError(line_, status.message());
  }

  absl::Status LexString() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return SyntaxError(line_, "string without an end");
    Push(TokenType::kString, "");
    OCTAVO_RETURN_IF_ERROR(AtLine(UnescapeString(
        absl::string_view(source_).substr(at_ + 1, end - at_ - 1), &tokens_.back().text)));
    Advance(end + 1 - at_);
    return absl::OkStatus();
  }

  absl::Status LexOperator(std::string* open) {
    static constexpr absl::string_view kOperators[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* op =
        std::find_if(std::begin(kOperators), std::end(kOperators),
                     [&](absl::string_view candidate) { return StartsWith(candidate); });
    if (op == std::end(kOperators)) {
      return SyntaxError(line_,
                         absl::StrCat("unexpected character '",
                                      Rest().substr(0, Utf8SequenceLength(source_[at_])), "'"));
    }
    const char c = source_[at_];
    if (c == '(') open->push_back(')');
    if (c == '[') open->push_back(']');
    if (c == '{') open->push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (open->empty() || open->back() != c) {
        return SyntaxError(line_, absl::StrCat("unexpected '", *op, "'"));
      }
      open->pop_back();
    }
    Push(TokenType::kOperator, *op);
    Advance(op->size());
    return absl::OkStatus();
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // whether the last thing read ended with a line break
  std::vector<Token> tokens_;
};

}  // namespace

absl::Status SyntaxError(int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("template line ", line, ": ", what));
}

absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view source) {
  return Lexer(NormalizeLines(source)).Run();
}

}  // namespace octavo::jinja
