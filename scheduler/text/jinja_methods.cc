#include "scheduler/text/jinja_methods.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_format.h"
#include "scheduler/text/jinja_text_methods.h"
#include "scheduler/text/jinja_unicode.h"

namespace octavo::jinja {
namespace {

// Python's text[start:stop] as the searching methods apply it, with where it begins.
struct Window {
  Text text;
  int64_t start = 0;  // code points before it
};

absl::StatusOr<std::optional<Window>> WindowOf(const Text& text, const BoundArgs& bound,
                                               size_t first) {
  const bool whole_start = bound[first] == nullptr || bound[first]->IsNone();
  const bool whole_stop = bound[first + 1] == nullptr || bound[first + 1]->IsNone();
  if (whole_start && whole_stop) return Window{text, 0};
  const auto size = static_cast<int64_t>(CountCodePoints(text.view()));
  const auto place = [&](int64_t index) {
    if (index < 0) index = std::max<int64_t>(index, -size) + size;
    return index;
  };
  int64_t start = 0;
  int64_t stop = size;
  if (!whole_start) {
    OCTAVO_ASSIGN_OR_RETURN(start, bound.Integer(first, 0));
    start = place(start);
  }
  if (!whole_stop) {
    OCTAVO_ASSIGN_OR_RETURN(stop, bound.Integer(first + 1, 0));
    stop = std::min(place(stop), size);
  }
  if (start > stop) return std::nullopt;
  const size_t begin = OffsetOf(text.view(), static_cast<size_t>(start));
  const size_t length = OffsetOf(text.view().substr(begin), static_cast<size_t>(stop - start));
  return Window{text.Substr(begin, length), start};
}

absl::StatusOr<Value> AffixMethod(Runtime& runtime, const Value& self, const Args& args,
                                  bool at_end) {
  OCTAVO_ASSIGN_OR_RETURN(
      const BoundArgs bound,
      BoundArgs::Bind(at_end ? "endswith" : "startswith", args, {"prefix", "start", "end"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const auto window, WindowOf(self.text(), bound, 1));
  const auto matches = [&](const Value& affix) {
    if (!window.has_value() || !runtime.budget.Spend(1)) return false;
    const absl::string_view view = window->text.view();
    const absl::string_view wanted = affix.text().view();
    if (wanted.size() > view.size()) return false;
    return view.substr(at_end ? view.size() - wanted.size() : 0, wanted.size()) == wanted;
  };
  if (bound[0]->IsString()) return Value::Bool(matches(*bound[0]));
  const Sequence* tuple = bound[0]->sequence();
  if (tuple == nullptr || tuple->kind != Sequence::Kind::kTuple) {
    return Unsuitable(*bound[0], "be a prefix or suffix");
  }
  bool found = false;
  for (const Value& affix : tuple->items) {
    if (!affix.IsString()) return Unsuitable(affix, "be a prefix or suffix");
    found = found || matches(affix);
  }
  return Value::Bool(found);
}

absl::StatusOr<Value> StartsWith(Runtime& runtime, const Value& self, const Args& args) {
  return AffixMethod(runtime, self, args, false);
}
absl::StatusOr<Value> EndsWith(Runtime& runtime, const Value& self, const Args& args) {
  return AffixMethod(runtime, self, args, true);
}

// Code point index of the first or last occurrence; -1 when absent.
absl::StatusOr<int64_t> Search(Runtime& runtime, const Value& self, const Args& args, bool last) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("find", args, {"sub", "start", "end"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const Text wanted, bound.String(0, ""));
  OCTAVO_ASSIGN_OR_RETURN(const auto window, WindowOf(self.text(), bound, 1));
  if (!window.has_value()) return -1;
  // Searching backwards compares up to the whole pattern at each place.
  if (!runtime.budget.SpendBytes(window->text.size() * (last ? wanted.size() + 1 : 1))) {
    return runtime.budget.status();
  }
  const absl::string_view view = window->text.view();
  const size_t at = last ? view.rfind(wanted.view()) : FindText(view, wanted.view());
  if (at == absl::string_view::npos) return -1;
  return window->start + static_cast<int64_t>(CountCodePoints(view.substr(0, at)));
}

absl::StatusOr<Value> Find(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const int64_t at, Search(runtime, self, args, false));
  return Value::Int(at);
}
absl::StatusOr<Value> RFind(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const int64_t at, Search(runtime, self, args, true));
  return Value::Int(at);
}
absl::StatusOr<Value> Index(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const int64_t at, Search(runtime, self, args, false));
  if (at < 0) return absl::InvalidArgumentError("index: the text does not occur");
  return Value::Int(at);
}
absl::StatusOr<Value> RIndex(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const int64_t at, Search(runtime, self, args, true));
  if (at < 0) return absl::InvalidArgumentError("rindex: the text does not occur");
  return Value::Int(at);
}

absl::StatusOr<Value> Count(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("count", args, {"sub", "start", "end"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const Text wanted, bound.String(0, ""));
  OCTAVO_ASSIGN_OR_RETURN(const auto window, WindowOf(self.text(), bound, 1));
  if (!window.has_value()) return Value::Int(0);
  const absl::string_view view = window->text.view();
  runtime.budget.SpendBytes(view.size());
  if (wanted.empty()) return Value::Int(static_cast<int64_t>(CountCodePoints(view)) + 1);
  int64_t count = 0;
  for (size_t at = FindText(view, wanted.view()); at != absl::string_view::npos;
       at = FindText(view, wanted.view(), at + wanted.size())) {
    ++count;
  }
  return Value::Int(count);
}

template <std::string (*map)(absl::string_view)>
absl::StatusOr<Value> MapCase(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("case method", args, {}).status());
  if (!runtime.budget.Allocate(self.text().size() * kCaseMapCost)) return runtime.budget.status();
  return MakeText(runtime.budget, map(self.text().view()), self.text().AnyMarked());
}

template <CharClass char_class>
absl::StatusOr<Value> IsClass(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("is method", args, {}).status());
  if (!runtime.budget.SpendBytes(self.text().size() * kClassSearchCost)) {
    return runtime.budget.status();
  }
  return Value::Bool(AllOfClass(self.text().view(), char_class));
}

template <Alignment alignment>
absl::StatusOr<Value> PadMethod(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("padding method", args, {"width", "fillchar"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const int64_t width, bound.Integer(0, 0));
  OCTAVO_ASSIGN_OR_RETURN(const Text fill, bound.String(1, " "));
  OCTAVO_ASSIGN_OR_RETURN(Text padded, Pad(runtime, self.text(), width, alignment, fill));
  return Value(std::move(padded));
}

absl::StatusOr<Value> ZFill(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("zfill", args, {"width"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const int64_t width, bound.Integer(0, 0));
  const Text& text = self.text();
  const bool sign = !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+');
  OCTAVO_ASSIGN_OR_RETURN(const Text digits,
                          Pad(runtime, text.Substr(sign ? 1 : 0), width - (sign ? 1 : 0),
                              Alignment::kRight, Text("0", false)));
  return Value(sign ? text.Substr(0, 1).Concat(digits) : digits);
}

constexpr NamedMethod kLookingMethods[] = {
    {"capitalize", MapCase<Capitalize>},
    {"casefold", MapCase<ToLower>},
    {"center", PadMethod<Alignment::kCenter>},
    {"count", Count},
    {"endswith", EndsWith},
    {"find", Find},
    {"index", Index},
    {"isalnum", IsClass<CharClass::kAlnum>},
    {"isalpha", IsClass<CharClass::kAlpha>},
    {"isdecimal", IsClass<CharClass::kDecimal>},
    {"isdigit", IsClass<CharClass::kDigit>},
    {"islower", IsClass<CharClass::kLower>},
    {"isnumeric", IsClass<CharClass::kNumeric>},
    {"isspace", IsClass<CharClass::kSpace>},
    {"isupper", IsClass<CharClass::kUpper>},
    {"ljust", PadMethod<Alignment::kLeft>},
    {"lower", MapCase<ToLower>},
    {"rfind", RFind},
    {"rindex", RIndex},
    {"rjust", PadMethod<Alignment::kRight>},
    {"startswith", StartsWith},
    {"swapcase", MapCase<SwapCase>},
    {"title", MapCase<ToTitle>},
    {"upper", MapCase<ToUpper>},
    {"zfill", ZFill},
};

}  // namespace

absl::Span<const NamedMethod> LookingMethods() { return kLookingMethods; }

}  // namespace octavo::jinja
