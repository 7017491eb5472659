#include "scheduler/text/jinja_print.h"

#include <charconv>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_unicode.h"
#include "scheduler/text/utf8.h"

namespace octavo::jinja {
namespace {

class ReprWriter {
 public:
  explicit ReprWriter(Budget& budget) : budget_(budget) {}

  absl::Status Write(const Value& value) {
    if (!budget_.Spend(1) || !budget_.Allocate(out_.size() - charged_)) return budget_.status();
    charged_ = out_.size();
    if (value.IsString()) {
      if (!value.text().is_markup()) return WriteString(value.text());
      out_ += "Markup(";
      OCTAVO_RETURN_IF_ERROR(WriteString(value.text()));
      out_ += ')';
      return absl::OkStatus();
    }
    if (value.IsDict()) return WriteDict(value.dict());
    if (const Sequence* sequence = value.sequence()) return WriteSequence(*sequence);
    if (value.IsUndefined()) {
      out_ += "Undefined";
    } else if (value.IsNone()) {
      out_ += "None";
    } else if (value.IsBool()) {
      out_ += value.boolean() ? "True" : "False";
    } else if (value.IsInt()) {
      absl::StrAppend(&out_, value.integral());
    } else if (value.IsFloat()) {
      out_ += FormatFloat(value.floating());
    } else {
      return CannotPrint(value);
    }
    return absl::OkStatus();
  }

  Text Finish() { return MakeText(budget_, out_, marked_).text(); }

 private:
  static constexpr size_t kEscapeBytes = 10;  // "\U0001f600"

  static absl::Status CannotPrint(const Value& value) {
    return absl::InvalidArgumentError(absl::StrCat("a ", TypeName(value), " cannot be printed"));
  }

  size_t NextUnprintable(absl::string_view view, size_t from) {
    const size_t found = FindUnprintable(view, from);
    budget_.Spend(1);
    budget_.SpendBytes((found - from) * kClassSearchCost);
    return found;
  }

  absl::Status WriteString(const Text& text) {
    const absl::string_view view = text.view();
    marked_ = marked_ || text.AnyMarked();
    const bool has_single = view.find('\'') != absl::string_view::npos;
    const char quote = has_single && view.find('"') == absl::string_view::npos ? '"' : '\'';
    if (!budget_.Allocate(view.size())) return budget_.status();
    out_ += quote;
    size_t unprintable = NextUnprintable(view, 0);
    for (size_t at = 0; at < view.size(); at += Utf8SequenceLength(view[at])) {
      const char c = view[at];
      if (at == unprintable) {
        if (!budget_.Allocate(kEscapeBytes)) return budget_.status();
        WriteEscape(DecodeUtf8At(view, at));
        unprintable = NextUnprintable(view, at + Utf8SequenceLength(c));
      } else if (c == quote || c == '\\') {
        out_ += '\\';
        out_ += c;
      } else {
        out_.append(view.data() + at, Utf8SequenceLength(c));
      }
    }
    out_ += quote;
    return absl::OkStatus();
  }

  void WriteEscape(uint32_t c) {
    if (c == '\n') {
      out_ += "\\n";
    } else if (c == '\r') {
      out_ += "\\r";
    } else if (c == '\t') {
      out_ += "\\t";
    } else if (c < 0x100) {
      absl::StrAppendFormat(&out_, "\\x%02x", c);
    } else if (c < 0x10000) {
      absl::StrAppendFormat(&out_, "\\u%04x", c);
    } else {
      absl::StrAppendFormat(&out_, "\\U%08x", c);
    }
  }

  absl::Status WriteSequence(const Sequence& sequence) {
    std::string open = "[";
    std::string close = "]";
    switch (sequence.kind) {
      case Sequence::Kind::kList:
        break;
      case Sequence::Kind::kTuple:
        open = "(";
        close = sequence.items.size() == 1 ? ",)" : ")";
        break;
      case Sequence::Kind::kKeys:
      case Sequence::Kind::kValues:
      case Sequence::Kind::kItems:
        open = sequence.kind == Sequence::Kind::kKeys     ? "dict_keys(["
               : sequence.kind == Sequence::Kind::kValues ? "dict_values(["
                                                          : "dict_items([";
        close = "])";
        break;
      case Sequence::Kind::kRange:
        return absl::InvalidArgumentError("a range cannot be printed");
      case Sequence::Kind::kGenerator:
        return absl::InvalidArgumentError("a generator cannot be printed: use | list or | join");
    }
    out_ += open;
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out_ += ", ";
      OCTAVO_RETURN_IF_ERROR(Write(sequence.items[i]));
    }
    out_ += close;
    return absl::OkStatus();
  }

  absl::Status WriteDict(const Dict& dict) {
    out_ += '{';
    bool first = true;
    for (const auto& [key, value] : dict.entries()) {
      if (!first) out_ += ", ";
      first = false;
      OCTAVO_RETURN_IF_ERROR(Write(key));
      out_ += ": ";
      OCTAVO_RETURN_IF_ERROR(Write(value));
    }
    out_ += '}';
    return absl::OkStatus();
  }

  Budget& budget_;
  std::string out_;
  size_t charged_ = 0;  // bytes of out_ that the budget has been charged for
  bool marked_ = false;
};

}  // namespace

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto scientific =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const absl::string_view text(buffer, static_cast<size_t>(scientific.ptr - buffer));
  int exponent = 0;
  const size_t e = text.find('e');
  const char* digits = text.data() + e + 1;
  std::from_chars(*digits == '+' ? digits + 1 : digits, scientific.ptr, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string out(buffer, fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

absl::StatusOr<Text> Str(const Value& value, Budget& budget) {
  if (value.IsString()) return value.text();
  if (value.IsUndefined()) return Text();
  return Repr(value, budget);
}

absl::StatusOr<Text> Repr(const Value& value, Budget& budget) {
  ReprWriter writer(budget);
  OCTAVO_RETURN_IF_ERROR(writer.Write(value));
  return writer.Finish();
}

}  // namespace octavo::jinja
