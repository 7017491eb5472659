// Filters that give text.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_filters.h"
#include "scheduler/text/jinja_format.h"
#include "scheduler/text/jinja_json.h"
#include "scheduler/text/jinja_operators.h"
#include "scheduler/text/jinja_print.h"
#include "scheduler/text/jinja_text_methods.h"
#include "scheduler/text/jinja_unicode.h"
#include "scheduler/text/utf8.h"

namespace octavo::jinja {
namespace {

constexpr int64_t kMaxIndent = 256;  // of one level, in characters

absl::StatusOr<Value> WholeText(Runtime& runtime, const Value& value, const Args& args,
                                absl::string_view name, std::string (*map)(absl::string_view)) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind(name, args, {}).status());
  OCTAVO_ASSIGN_OR_RETURN(const Text text, Str(value, runtime.budget));
  if (!runtime.budget.Allocate(text.size() * kCaseMapCost)) return runtime.budget.status();
  return MakeText(runtime.budget, map(text.view()), text.AnyMarked());
}

absl::StatusOr<Value> Upper(Runtime& runtime, const Value& value, const Args& args) {
  return WholeText(runtime, value, args, "upper", ToUpper);
}
absl::StatusOr<Value> Lower(Runtime& runtime, const Value& value, const Args& args) {
  return WholeText(runtime, value, args, "lower", ToLower);
}
absl::StatusOr<Value> Capitalized(Runtime& runtime, const Value& value, const Args& args) {
  return WholeText(runtime, value, args, "capitalize", Capitalize);
}

// Jinja's title: words begin after white space and the characters -({[<.
std::string TitleWords(absl::string_view text) {
  std::string out;
  size_t begin = 0;
  const auto is_break = [&](size_t at) {
    return absl::string_view("-({[<").find(text[at]) != absl::string_view::npos ||
           IsSpace(DecodeUtf8At(text, at));
  };
  while (begin < text.size()) {
    size_t end = begin;
    const bool separator = is_break(begin);
    while (end < text.size() && is_break(end) == separator) end += Utf8SequenceLength(text[end]);
    const size_t head = begin + Utf8SequenceLength(text[begin]);
    absl::StrAppend(&out, ToUpper(text.substr(begin, head - begin)),
                    ToLower(text.substr(head, end - head)));
    begin = end;
  }
  return out;
}

absl::StatusOr<Value> Title(Runtime& runtime, const Value& value, const Args& args) {
  return WholeText(runtime, value, args, "title", TitleWords);
}

absl::StatusOr<Value> Trim(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("trim", args, {"chars"}));
  OCTAVO_ASSIGN_OR_RETURN(const Text text, Str(value, runtime.budget));
  return StripText(runtime, text, bound[0], true, true);
}

absl::StatusOr<Value> ToText(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("string", args, {}).status());
  OCTAVO_ASSIGN_OR_RETURN(Text text, Str(value, runtime.budget));
  return Value(std::move(text));
}

absl::StatusOr<Value> Safe(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("safe", args, {}).status());
  OCTAVO_ASSIGN_OR_RETURN(const Text text, Str(value, runtime.budget));
  return Value(text.AsMarkup());
}

absl::StatusOr<Value> Escape(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("escape", args, {}).status());
  OCTAVO_ASSIGN_OR_RETURN(const Text text, Str(value, runtime.budget));
  return Value(text.is_markup() ? text : EscapeHtml(runtime, text));
}

absl::StatusOr<Value> ForceEscape(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_RETURN_IF_ERROR(BoundArgs::Bind("forceescape", args, {}).status());
  OCTAVO_ASSIGN_OR_RETURN(const Text text, Str(value, runtime.budget));
  return Value(EscapeHtml(runtime, text));
}

absl::StatusOr<Value> Replace(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("replace", args, {"old", "new", "count"}, 2));
  OCTAVO_ASSIGN_OR_RETURN(const Text text, Str(value, runtime.budget));
  OCTAVO_ASSIGN_OR_RETURN(const Text from, Str(*bound[0], runtime.budget));
  OCTAVO_ASSIGN_OR_RETURN(const Text to, Str(*bound[1], runtime.budget));
  const bool unlimited = bound[2] == nullptr || bound[2]->IsNone();
  OCTAVO_ASSIGN_OR_RETURN(const int64_t count,
                          unlimited ? absl::StatusOr<int64_t>(-1) : bound.Integer(2, -1));
  return ReplaceText(runtime, text, from, to, count);
}

absl::StatusOr<std::string> IndentOf(const Value& value) {
  if (value.IsString() && value.text().size() <= static_cast<size_t>(kMaxIndent)) {
    return std::string(value.text().view());
  }
  if (value.IsIntegral() && value.integral() <= kMaxIndent) {
    return std::string(static_cast<size_t>(std::max<int64_t>(value.integral(), 0)), ' ');
  }
  return absl::InvalidArgumentError(
      absl::StrCat("an indent is a number or a text, up to the limit of ", kMaxIndent));
}

absl::StatusOr<Value> Indent(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("indent", args, {"width", "first", "blank"}));
  if (!value.IsString()) return Unsuitable(value, "be indented");
  std::string indent(4, ' ');
  bool marked = value.text().AnyMarked();
  if (bound[0] != nullptr) {
    OCTAVO_ASSIGN_OR_RETURN(indent, IndentOf(*bound[0]));
    marked = marked || (bound[0]->IsString() && bound[0]->text().AnyMarked());
  }
  const bool blank = bound.Boolean(2, false);
  // As Jinja does it: with a line break added, so that one at the end gives an empty last line.
  const std::string source = absl::StrCat(value.text().view(), "\n");
  std::string out = bound.Boolean(1, false) ? indent : "";
  size_t line = 0;
  for (size_t at = 0; at < source.size();) {
    const size_t line_break = LineBreakAt(source, at);
    if (line_break == 0) {
      at += Utf8SequenceLength(source[at]);
      continue;
    }
    if (!runtime.budget.Allocate(at - line + indent.size() + 1)) return runtime.budget.status();
    if (line > 0) {
      out += '\n';
      if (blank || at > line) out += indent;
    }
    out.append(source, line, at - line);
    at += line_break;
    line = at;
  }
  return MakeText(runtime.budget, out, marked);
}

absl::StatusOr<Value> JsonFilter(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(
      const BoundArgs bound,
      BoundArgs::Bind("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  bool marked = false;
  style.ensure_ascii = bound.Boolean(0, false);
  style.sort_keys = bound.Boolean(3, false);
  if (bound[1] != nullptr && !bound[1]->IsNone()) {
    OCTAVO_ASSIGN_OR_RETURN(style.indent, IndentOf(*bound[1]));
    marked = bound[1]->IsString() && bound[1]->text().AnyMarked();
  }
  if (bound[2] != nullptr && !bound[2]->IsNone()) {
    const Sequence* pair = bound[2]->sequence();
    if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].IsString() ||
        !pair->items[1].IsString()) {
      return absl::InvalidArgumentError("tojson: separators are a pair of texts");
    }
    style.item_separator = std::string(pair->items[0].text().view());
    style.key_separator = std::string(pair->items[1].text().view());
    marked = marked || pair->items[0].text().AnyMarked() || pair->items[1].text().AnyMarked();
    if (style.item_separator->size() + style.key_separator.size() > kMaxIndent) {
      return absl::InvalidArgumentError(
          absl::StrCat("tojson: separators over the limit of ", kMaxIndent, " bytes"));
    }
  }
  OCTAVO_ASSIGN_OR_RETURN(const Text text, ToJson(value, style, runtime.budget));
  if (marked && !text.AnyMarked()) return MakeText(runtime.budget, text.view(), true);
  return Value(text);
}

absl::StatusOr<Value> Format(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const Text format, Str(value, runtime.budget));
  if (!args.named.empty()) {
    if (!args.positional.empty()) {
      return absl::InvalidArgumentError("format: positional and named arguments do not mix");
    }
    Dict dict;
    for (const auto& [name, item] : args.named) dict.Set(Value::String(name), item);
    OCTAVO_ASSIGN_OR_RETURN(
        Text text, FormatPercent(runtime, format, MakeDict(runtime.budget, std::move(dict))));
    return Value(std::move(text));
  }
  const Value tuple = MakeSequence(runtime.budget, Sequence::Kind::kTuple, args.positional);
  OCTAVO_ASSIGN_OR_RETURN(Text text, FormatPercent(runtime, format, tuple));
  return Value(std::move(text));
}

absl::StatusOr<Value> Center(Runtime& runtime, const Value& value, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("center", args, {"width"}));
  OCTAVO_ASSIGN_OR_RETURN(const int64_t width, bound.Integer(0, 80));
  OCTAVO_ASSIGN_OR_RETURN(const Text text, Str(value, runtime.budget));
  OCTAVO_ASSIGN_OR_RETURN(Text padded,
                          Pad(runtime, text, width, Alignment::kCenter, Text(" ", false)));
  return Value(std::move(padded));
}

constexpr NamedFilter kFilters[] = {
    {"capitalize", Capitalized},
    {"center", Center},
    {"e", Escape},
    {"escape", Escape},
    {"format", Format},
    {"forceescape", ForceEscape},
    {"indent", Indent},
    {"lower", Lower},
    {"replace", Replace},
    {"safe", Safe},
    {"string", ToText},
    {"title", Title},
    {"tojson", JsonFilter},
    {"trim", Trim},
    {"upper", Upper},
};

}  // namespace

absl::Span<const NamedFilter> TextFilters() { return kFilters; }

}  // namespace octavo::jinja
