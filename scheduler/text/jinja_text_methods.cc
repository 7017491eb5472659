#include "scheduler/text/jinja_text_methods.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/status_macros.h"
#include "scheduler/text/jinja_methods.h"
#include "scheduler/text/jinja_print.h"
#include "scheduler/text/jinja_unicode.h"
#include "scheduler/text/utf8.h"

namespace octavo::jinja {
namespace {

constexpr size_t kNone = absl::string_view::npos;

Value TextList(Runtime& runtime, std::vector<Text> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (Text& part : parts) items.emplace_back(std::move(part));
  return MakeSequence(runtime.budget, Sequence::Kind::kList, std::move(items));
}

// Searching backwards compares up to the whole pattern at each place.
bool SpendBackwardSearch(Runtime& runtime, const Text& text, const Text& wanted) {
  return runtime.budget.SpendBytes(text.size() * wanted.size());
}

// str.split() at runs of white space.
std::vector<Text> SplitAtSpace(const Text& text, int64_t max_split) {
  std::vector<Text> parts;
  size_t at = LeadingSpace(text.view());
  while (at < text.size()) {
    if (max_split >= 0 && static_cast<int64_t>(parts.size()) == max_split) {
      parts.push_back(text.Substr(at));
      break;
    }
    size_t end = at;
    while (end < text.size() && !IsSpace(DecodeUtf8At(text.view(), end))) {
      end += Utf8SequenceLength(text.view()[end]);
    }
    parts.push_back(text.Substr(at, end - at));
    at = end + LeadingSpace(text.view().substr(end));
  }
  return parts;
}

std::vector<Text> SplitAtSpaceFromRight(const Text& text, int64_t max_split) {
  std::vector<Text> parts;
  size_t end = text.size() - TrailingSpace(text.view());
  while (end > 0) {
    if (max_split >= 0 && static_cast<int64_t>(parts.size()) == max_split) {
      parts.push_back(text.Substr(0, end));
      break;
    }
    size_t begin = end;
    while (begin > 0) {
      const size_t length = LastLength(text.view().substr(0, begin));
      if (IsSpace(DecodeUtf8At(text.view(), begin - length))) break;
      begin -= length;
    }
    parts.push_back(text.Substr(begin, end - begin));
    end = begin - TrailingSpace(text.view().substr(0, begin));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Text> SplitAt(const Text& text, absl::string_view separator, int64_t max_split) {
  std::vector<Text> parts;
  size_t at = 0;
  while (max_split < 0 || static_cast<int64_t>(parts.size()) < max_split) {
    const size_t found = FindText(text.view(), separator, at);
    if (found == kNone) break;
    parts.push_back(text.Substr(at, found - at));
    at = found + separator.size();
  }
  parts.push_back(text.Substr(at));
  return parts;
}

std::vector<Text> SplitAtFromRight(const Text& text, absl::string_view separator,
                                   int64_t max_split) {
  std::vector<Text> parts;
  size_t end = text.size();
  while (max_split < 0 || static_cast<int64_t>(parts.size()) < max_split) {
    const size_t found = text.view().substr(0, end).rfind(separator);
    if (found == kNone) break;
    parts.push_back(text.Substr(found + separator.size(), end - found - separator.size()));
    end = found;
  }
  parts.push_back(text.Substr(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

absl::StatusOr<Value> SplitMethod(Runtime& runtime, const Text& text, const Args& args,
                                  bool from_right) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind(from_right ? "rsplit" : "split",
                                                                 args, {"sep", "maxsplit"}));
  OCTAVO_ASSIGN_OR_RETURN(const int64_t max_split, bound.Integer(1, -1));
  if (!runtime.budget.SpendBytes(text.size())) return runtime.budget.status();
  if (bound[0] == nullptr || bound[0]->IsNone()) {
    return TextList(runtime, from_right ? SplitAtSpaceFromRight(text, max_split)
                                        : SplitAtSpace(text, max_split));
  }
  OCTAVO_ASSIGN_OR_RETURN(const Text separator, bound.String(0, ""));
  if (separator.empty()) return absl::InvalidArgumentError("split at an empty text");
  if (from_right && !SpendBackwardSearch(runtime, text, separator)) return runtime.budget.status();
  return TextList(runtime, from_right ? SplitAtFromRight(text, separator.view(), max_split)
                                      : SplitAt(text, separator.view(), max_split));
}

absl::StatusOr<Value> Split(Runtime& runtime, const Value& self, const Args& args) {
  return SplitMethod(runtime, self.text(), args, false);
}
absl::StatusOr<Value> RSplit(Runtime& runtime, const Value& self, const Args& args) {
  return SplitMethod(runtime, self.text(), args, true);
}

absl::StatusOr<Value> SplitLines(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("splitlines", args, {"keepends"}));
  const bool keep_ends = bound.Boolean(0, false);
  const Text& text = self.text();
  if (!runtime.budget.SpendBytes(text.size())) return runtime.budget.status();
  std::vector<Text> lines;
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t line_break = LineBreakAt(text.view(), at);
    const size_t next = at + std::max(line_break, Utf8SequenceLength(text.view()[at]));
    if (line_break > 0) {
      lines.push_back(text.Substr(line, (keep_ends ? next : at) - line));
      line = next;
    }
    at = next;
  }
  if (line < text.size()) lines.push_back(text.Substr(line));
  return TextList(runtime, std::move(lines));
}

absl::StatusOr<Value> PartitionMethod(Runtime& runtime, const Value& self, const Args& args,
                                      bool from_right) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("partition", args, {"sep"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const Text separator, bound.String(0, ""));
  if (separator.empty()) return absl::InvalidArgumentError("partition at an empty text");
  const Text& text = self.text();
  if (from_right && !SpendBackwardSearch(runtime, text, separator)) return runtime.budget.status();
  runtime.budget.SpendBytes(text.size());
  const size_t found =
      from_right ? text.view().rfind(separator.view()) : FindText(text.view(), separator.view());
  std::vector<Value> parts(3, Value(Text()));
  if (found == kNone) {
    parts[from_right ? 2 : 0] = self;
  } else {
    parts[0] = Value(text.Substr(0, found));
    parts[1] = Value(text.Substr(found, separator.size()));
    parts[2] = Value(text.Substr(found + separator.size()));
  }
  return MakeSequence(runtime.budget, Sequence::Kind::kTuple, std::move(parts));
}

absl::StatusOr<Value> Partition(Runtime& runtime, const Value& self, const Args& args) {
  return PartitionMethod(runtime, self, args, false);
}
absl::StatusOr<Value> RPartition(Runtime& runtime, const Value& self, const Args& args) {
  return PartitionMethod(runtime, self, args, true);
}

absl::StatusOr<Value> StripMethod(Runtime& runtime, const Value& self, const Args& args, bool left,
                                  bool right) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("strip", args, {"chars"}));
  return StripText(runtime, self.text(), bound[0], left, right);
}

absl::StatusOr<Value> Strip(Runtime& runtime, const Value& self, const Args& args) {
  return StripMethod(runtime, self, args, true, true);
}
absl::StatusOr<Value> LStrip(Runtime& runtime, const Value& self, const Args& args) {
  return StripMethod(runtime, self, args, true, false);
}
absl::StatusOr<Value> RStrip(Runtime& runtime, const Value& self, const Args& args) {
  return StripMethod(runtime, self, args, false, true);
}

absl::StatusOr<Value> RemovePrefix(Runtime&, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("removeprefix", args, {"prefix"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const Text prefix, bound.String(0, ""));
  const Text& text = self.text();
  if (text.view().substr(0, prefix.size()) != prefix.view()) return self;
  return Value(text.Substr(prefix.size()));
}

absl::StatusOr<Value> RemoveSuffix(Runtime&, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("removesuffix", args, {"suffix"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const Text suffix, bound.String(0, ""));
  const Text& text = self.text();
  if (suffix.size() > text.size()) return self;
  const size_t kept = text.size() - suffix.size();
  return text.view().substr(kept) == suffix.view() ? Value(text.Substr(0, kept)) : self;
}

absl::StatusOr<Value> Replace(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound,
                          BoundArgs::Bind("replace", args, {"old", "new", "count"}, 2));
  OCTAVO_ASSIGN_OR_RETURN(const Text from, bound.String(0, ""));
  OCTAVO_ASSIGN_OR_RETURN(const Text to, bound.String(1, ""));
  OCTAVO_ASSIGN_OR_RETURN(const int64_t count, bound.Integer(2, -1));
  return ReplaceText(runtime, self.text(), from, to, count);
}

absl::StatusOr<Value> Join(Runtime& runtime, const Value& self, const Args& args) {
  OCTAVO_ASSIGN_OR_RETURN(const BoundArgs bound, BoundArgs::Bind("join", args, {"iterable"}, 1));
  OCTAVO_ASSIGN_OR_RETURN(const auto items, Iterate(runtime, *bound[0]));
  std::vector<Text> parts;
  parts.reserve(items->items.size());
  for (const Value& item : items->items) {
    if (!item.IsString()) return Unsuitable(item, "be joined as text");
    parts.push_back(item.text());
  }
  return JoinTexts(runtime, self.text(), parts);
}

constexpr NamedMethod kMethods[] = {
    {"join", Join},
    {"lstrip", LStrip},
    {"partition", Partition},
    {"removeprefix", RemovePrefix},
    {"removesuffix", RemoveSuffix},
    {"replace", Replace},
    {"rpartition", RPartition},
    {"rsplit", RSplit},
    {"rstrip", RStrip},
    {"split", Split},
    {"splitlines", SplitLines},
    {"strip", Strip},
};

}  // namespace

absl::Span<const NamedMethod> CuttingMethods() { return kMethods; }

absl::StatusOr<Value> StripText(Runtime& runtime, const Text& text, const Value* chars, bool left,
                                bool right) {
  runtime.budget.SpendBytes(text.size());
  const absl::string_view view = text.view();
  if (chars == nullptr || chars->IsNone()) {
    const size_t begin = left ? LeadingSpace(view) : 0;
    const size_t cut = right ? TrailingSpace(view.substr(begin)) : 0;
    return Value(text.Substr(begin, text.size() - begin - cut));
  }
  if (!chars->IsString()) return Unsuitable(*chars, "name characters to strip");
  const absl::string_view set = chars->text().view();
  size_t begin = 0;
  size_t end = view.size();
  while (left && begin < end) {
    const size_t length = Utf8SequenceLength(view[begin]);
    if (set.find(view.substr(begin, length)) == kNone) break;
    begin += length;
    if (!runtime.budget.Spend(1) || !runtime.budget.SpendBytes(set.size())) {
      return runtime.budget.status();
    }
  }
  while (right && begin < end) {
    const size_t length = LastLength(view.substr(0, end));
    if (set.find(view.substr(end - length, length)) == kNone) break;
    end -= length;
    if (!runtime.budget.Spend(1) || !runtime.budget.SpendBytes(set.size())) {
      return runtime.budget.status();
    }
  }
  return Value(text.Substr(begin, end - begin));
}

absl::StatusOr<Value> ReplaceText(Runtime& runtime, const Text& text, const Text& from,
                                  const Text& to, int64_t count) {
  runtime.budget.SpendBytes(text.size());
  const absl::string_view view = text.view();
  std::string out;
  size_t copied = 0;
  int64_t done = 0;
  for (size_t at = 0; at <= view.size() && (count < 0 || done < count); ++done) {
    // An empty pattern is found in front of every character and at the end.
    const size_t found = from.empty() ? at : FindText(view, from.view(), at);
    if (found == kNone) break;
    if (!runtime.budget.Allocate(to.size() + found - copied) || !runtime.budget.Spend(1)) {
      return runtime.budget.status();
    }
    out.append(view.data() + copied, found - copied);
    out.append(to.view().data(), to.size());
    copied = found + from.size();
    at = from.empty()
             ? (found < view.size() ? found + Utf8SequenceLength(view[found]) : view.size() + 1)
             : copied;
  }
  if (done == 0) return Value(text);
  out.append(view.data() + copied, view.size() - copied);
  return MakeText(runtime.budget, out, text.AnyMarked() || to.AnyMarked());
}

absl::StatusOr<Value> JoinTexts(Runtime& runtime, const Text& separator,
                                const std::vector<Text>& parts) {
  TextBuilder builder;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!runtime.budget.Allocate(parts[i].size() + separator.size())) {
      return runtime.budget.status();
    }
    if (i > 0) builder.Append(separator);
    builder.Append(parts[i]);
  }
  return Value(builder.Finish());
}

}  // namespace octavo::jinja
