#include "scheduler/text/jinja_format.h"

#include <locale.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_print.h"
#include "scheduler/text/jinja_unicode.h"

namespace octavo::jinja {
namespace {

constexpr int kMaxWidth = 1000;         // of one conversion
constexpr size_t kMaxDateFormat = 256;  // bytes
constexpr size_t kMaxDateBytes = 4096;

absl::Status BadFormat(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("% format: ", what));
}

struct Spec {
  std::string flags;
  int width = 0;
  int precision = -1;
  char conversion = 0;
};

class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const Text& format, const Value& argument)
      : runtime_(runtime),
        format_(format.view()),
        argument_(argument),
        is_tuple_(argument.sequence() != nullptr &&
                  argument.sequence()->kind == Sequence::Kind::kTuple),
        marked_(format.AnyMarked()) {}

  absl::StatusOr<Text> Run() {
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      out_.append(format_.data() + at_, percent - at_);
      at_ = percent + 1;
      if (percent == format_.size()) break;
      const size_t before = out_.size();
      OCTAVO_RETURN_IF_ERROR(Convert());
      if (!runtime_.budget.Spend(1) || !runtime_.budget.Allocate(out_.size() - before)) {
        return runtime_.budget.status();
      }
    }
    const size_t given = is_tuple_ ? argument_.sequence()->items.size() : 1;
    if (used_ < given && (is_tuple_ || !argument_.IsDict())) {
      return BadFormat("not all arguments are used");
    }
    return MakeText(runtime_.budget, out_, marked_).text();
  }

 private:
  absl::Status Convert() {
    const Value* value = nullptr;
    if (at_ < format_.size() && format_[at_] == '(') {
      const size_t close = format_.find(')', at_);
      if (close == absl::string_view::npos || !argument_.IsDict()) {
        return BadFormat("%(name) needs a dict");
      }
      value = argument_.dict().Find(format_.substr(at_ + 1, close - at_ - 1));
      if (value == nullptr) return BadFormat("the dict lacks a name");
      at_ = close + 1;
    }
    OCTAVO_ASSIGN_OR_RETURN(const Spec spec, ParseSpec());
    if (spec.conversion == '%') {
      out_ += '%';
      return absl::OkStatus();
    }
    if (value == nullptr) {
      const size_t given = is_tuple_ ? argument_.sequence()->items.size() : 1;
      if (used_ >= given) return BadFormat("not enough arguments");
      value = is_tuple_ ? &argument_.sequence()->items[used_] : &argument_;
      ++used_;
    }
    return Append(spec, *value);
  }

  absl::StatusOr<Spec> ParseSpec() {
    Spec spec;
    while (at_ < format_.size() &&
           absl::string_view("-+ 0").find(format_[at_]) != absl::string_view::npos) {
      if (spec.flags.find(format_[at_]) == std::string::npos) spec.flags += format_[at_];
      ++at_;
    }
    const auto number = [&]() {
      int value = 0;
      for (; at_ < format_.size() && absl::ascii_isdigit(format_[at_]); ++at_) {
        value = std::min(value * 10 + (format_[at_] - '0'), kMaxWidth + 1);
      }
      return value;
    };
    spec.width = number();
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      spec.precision = number();
    }
    if (spec.width > kMaxWidth || spec.precision > kMaxWidth) {
      return BadFormat(absl::StrCat("width over the limit of ", kMaxWidth));
    }
    if (at_ == format_.size()) return BadFormat("ends inside a conversion");
    spec.conversion = format_[at_++];
    return spec;
  }

  absl::Status Append(const Spec& spec, const Value& value) {
    switch (spec.conversion) {
      case 's':
      case 'r':
        return AppendText(spec, value);
      case 'c':
        if (!value.IsString() || CountCodePoints(value.text().view()) != 1) {
          return BadFormat("%c needs one character");
        }
        return AppendText(spec, value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return AppendInteger(spec, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!value.IsNumber()) return Unsuitable(value, "be formatted as a float");
        return AppendFormatted(spec, "", value.number());
      default:
        return BadFormat("unknown conversion");
    }
  }

  absl::Status AppendText(const Spec& spec, const Value& value) {
    absl::StatusOr<Text> text =
        spec.conversion == 'r' ? Repr(value, runtime_.budget) : Str(value, runtime_.budget);
    OCTAVO_RETURN_IF_ERROR(text.status());
    marked_ = marked_ || text->AnyMarked();
    absl::string_view view = text->view();
    if (spec.precision >= 0) {
      view = view.substr(0, OffsetOf(view, static_cast<size_t>(spec.precision)));
    }
    const size_t length = std::min(CountCodePoints(view), static_cast<size_t>(kMaxWidth));
    const size_t padding = static_cast<size_t>(spec.width) > length ? spec.width - length : 0;
    const bool left = spec.flags.find('-') != std::string::npos;
    if (!runtime_.budget.Allocate(view.size())) return runtime_.budget.status();
    if (!left) out_.append(padding, ' ');
    out_.append(view.data(), view.size());
    if (left) out_.append(padding, ' ');
    return absl::OkStatus();
  }

  absl::Status AppendInteger(const Spec& spec, const Value& value) {
    const bool decimal = spec.conversion == 'd' || spec.conversion == 'i' || spec.conversion == 'u';
    int64_t number = 0;
    if (value.IsIntegral()) {
      number = value.integral();
    } else if (decimal && value.IsFloat() && std::fabs(value.floating()) < 9e18) {
      number = static_cast<int64_t>(value.floating());
    } else {
      return Unsuitable(value, "be formatted as an integer");
    }
    if (decimal) return AppendFormatted(spec, "ll", static_cast<long long>(number));
    // C's hexadecimal and octal have no sign; Python's have.
    if (number < 0) return BadFormat("negative numbers have no such form here");
    return AppendFormatted(spec, "ll", static_cast<unsigned long long>(number));
  }

  template <typename Number>
  absl::Status AppendFormatted(const Spec& spec, absl::string_view length, Number number) {
    std::string format = absl::StrCat("%", spec.flags);
    if (spec.width > 0) absl::StrAppend(&format, spec.width);
    if (spec.precision >= 0) absl::StrAppend(&format, ".", spec.precision);
    absl::StrAppend(&format, length,
                    std::string(1, spec.conversion == 'u' ? 'd' : spec.conversion));
    char buffer[kMaxWidth + 400];  // digits of the largest double, sign and point
    const int written = std::snprintf(buffer, sizeof(buffer), format.c_str(), number);
    OCTAVO_CHECK(written >= 0 && static_cast<size_t>(written) < sizeof(buffer));
    out_.append(buffer, static_cast<size_t>(written));
    return absl::OkStatus();
  }

  Runtime& runtime_;
  const absl::string_view format_;
  const Value& argument_;
  const bool is_tuple_;
  size_t at_ = 0;
  size_t used_ = 0;
  bool marked_ = false;
  std::string out_;
};

}  // namespace

absl::StatusOr<Text> FormatPercent(Runtime& runtime, const Text& format, const Value& argument) {
  return PercentFormatter(runtime, format, argument).Run();
}

absl::StatusOr<Text> FormatTime(Runtime& runtime, const Text& format) {
  if (format.size() > kMaxDateFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat("date format of ", format.size(), " bytes, the limit is ", kMaxDateFormat));
  }
  // Python's now() has no zone, so %z and %Z are empty; %f is its own.
  const absl::string_view view = format.view();
  std::string c_format;
  for (size_t i = 0; i < view.size(); ++i) {
    const char next = view[i] == '%' && i + 1 < view.size() ? view[i + 1] : '\0';
    if (next == '\0') {
      c_format += view[i];
      continue;
    }
    ++i;
    if (next == 'f') {
      const int64_t micros = absl::ToUnixMicros(runtime.now) % 1'000'000;
      const std::string digits = absl::StrCat(absl::Dec(micros, absl::kZeroPad6));
      c_format += digits;
    } else if (next != 'z' && next != 'Z') {
      c_format += '%';
      c_format += next;
    }
  }
  static const locale_t english = newlocale(LC_ALL_MASK, "C", locale_t{});
  const struct tm parts = absl::ToTM(runtime.now, runtime.time_zone);
  char buffer[kMaxDateBytes];
  const size_t written = strftime_l(buffer, sizeof(buffer), c_format.c_str(), &parts, english);
  if (written == 0 && !c_format.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the date is empty or over the limit of ", kMaxDateBytes, " bytes"));
  }
  return MakeText(runtime.budget, absl::string_view(buffer, written), format.AnyMarked()).text();
}

absl::StatusOr<Text> Pad(Runtime& runtime, const Text& value, int64_t width, Alignment alignment,
                         const Text& fill) {
  if (CountCodePoints(fill.view()) != 1) {
    return absl::InvalidArgumentError("the fill must be one character");
  }
  const auto length = static_cast<int64_t>(CountCodePoints(value.view()));
  if (width <= length) return value;
  const int64_t padding = width - length;
  if (padding > runtime.budget.limits().max_memory_bytes ||
      !runtime.budget.Allocate(static_cast<size_t>(padding) * fill.size() + value.size())) {
    runtime.budget.Exhaust("bytes of padding", runtime.budget.limits().max_memory_bytes);
    return runtime.budget.status();
  }
  // str.center puts the odd one to the left when the width is odd.
  int64_t left = alignment == Alignment::kLeft ? 0 : padding;
  if (alignment == Alignment::kCenter) left = padding / 2 + (padding & width & 1);
  TextBuilder builder;
  for (int64_t i = 0; i < left; ++i) builder.Append(fill);
  builder.Append(value);
  for (int64_t i = left; i < padding; ++i) builder.Append(fill);
  return builder.Finish();
}

}  // namespace octavo::jinja
