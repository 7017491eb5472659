#include "scheduler/text/jinja_json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "scheduler/text/jinja_print.h"
#include "scheduler/text/utf8.h"

namespace octavo::jinja {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<Value> StringFromJson(const std::string& text, Budget& budget) {
  if (const auto bad = FindInvalidUtf8(text)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a string of the context is not UTF-8 at byte ", *bad));
  }
  return MakeText(budget, text, true);
}

absl::StatusOr<Value> FromJsonAt(const Json& json, int depth, Budget& budget) {
  if (depth > kMaxValueDepth) budget.Exhaust("nested values", kMaxValueDepth);
  if (!budget.Spend(1)) return budget.status();
  switch (json.type()) {
    case Json::value_t::null:
      return Value::MakeNone();
    case Json::value_t::boolean:
      return Value::Bool(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::Int(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return absl::InvalidArgumentError(absl::StrCat("integer ", json.get<uint64_t>(),
                                                       " of the context is over the limit of ",
                                                       std::numeric_limits<int64_t>::max()));
      }
      return Value::Int(json.get<int64_t>());
    case Json::value_t::number_float:
      return Value::Float(json.get<double>());
    case Json::value_t::string:
      return StringFromJson(json.get_ref<const std::string&>(), budget);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) {
        OCTAVO_ASSIGN_OR_RETURN(Value value, FromJsonAt(item, depth + 1, budget));
        items.push_back(std::move(value));
      }
      return MakeSequence(budget, Sequence::Kind::kList, std::move(items));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [name, item] : json.items()) {
        OCTAVO_ASSIGN_OR_RETURN(Value key, StringFromJson(name, budget));
        OCTAVO_ASSIGN_OR_RETURN(Value value, FromJsonAt(item, depth + 1, budget));
        dict.Set(std::move(key), std::move(value));
      }
      return MakeDict(budget, std::move(dict));
    }
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  return absl::InvalidArgumentError("the context holds a value that JSON does not have");
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, Budget& budget)
      : style_(style),
        item_separator_(style.item_separator.value_or(style.indent.has_value() ? "," : ", ")),
        budget_(budget) {}

  absl::Status Write(const Value& value, int level) {
    if (!budget_.Spend(1) || !budget_.Allocate(out_.size() - charged_)) return budget_.status();
    charged_ = out_.size();
    if (value.IsString()) {
      WriteString(value.text());
    } else if (value.IsNone()) {
      out_ += "null";
    } else if (value.IsBool()) {
      out_ += value.boolean() ? "true" : "false";
    } else if (value.IsInt()) {
      absl::StrAppend(&out_, value.integral());
    } else if (value.IsFloat()) {
      out_ += Number(value.floating());
    } else if (value.IsDict()) {
      return WriteDict(value.dict(), level);
    } else if (value.sequence() != nullptr && value.sequence()->IsListOrTuple()) {
      return WriteList(value.sequence()->items, level);
    } else {
      return absl::InvalidArgumentError(
          value.IsUndefined()
              ? absl::StrCat("tojson of an undefined value: ", value.UndefinedMessage())
              : absl::StrCat("tojson cannot write a ", TypeName(value)));
    }
    return absl::OkStatus();
  }

  Text Finish() { return MakeText(budget_, out_, marked_).text(); }

 private:
  static std::string Number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FormatFloat(value);
  }

  void NewLine(int level) {
    if (!style_.indent.has_value()) return;
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += *style_.indent;
  }

  absl::Status WriteList(const std::vector<Value>& items, int level) {
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += item_separator_;
      NewLine(level + 1);
      OCTAVO_RETURN_IF_ERROR(Write(items[i], level + 1));
    }
    if (!items.empty()) NewLine(level);
    out_ += ']';
    return absl::OkStatus();
  }

  absl::Status WriteDict(const Dict& dict, int level) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      absl::Status failed;
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        const absl::StatusOr<bool> less = Less(a->first, b->first, budget_);
        if (!less.ok()) failed.Update(less.status());
        return less.ok() && *less;
      });
      OCTAVO_RETURN_IF_ERROR(failed);
    }
    out_ += '{';
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += item_separator_;
      NewLine(level + 1);
      OCTAVO_RETURN_IF_ERROR(WriteKey(entries[i]->first));
      out_ += style_.key_separator;
      OCTAVO_RETURN_IF_ERROR(Write(entries[i]->second, level + 1));
    }
    if (!entries.empty()) NewLine(level);
    out_ += '}';
    return absl::OkStatus();
  }

  absl::Status WriteKey(const Value& key) {
    if (key.IsString()) {
      WriteString(key.text());
    } else if (key.IsNone()) {
      out_ += "\"null\"";
    } else if (key.IsBool()) {
      out_ += key.boolean() ? "\"true\"" : "\"false\"";
    } else if (key.IsInt()) {
      absl::StrAppend(&out_, "\"", key.integral(), "\"");
    } else if (key.IsFloat()) {
      absl::StrAppend(&out_, "\"", Number(key.floating()), "\"");
    } else {
      return absl::InvalidArgumentError("tojson cannot write an undefined key");
    }
    return absl::OkStatus();
  }

  void WriteString(const Text& text) {
    marked_ = marked_ || text.AnyMarked();
    const absl::string_view view = text.view();
    if (!budget_.Allocate(view.size())) return;
    out_ += '"';
    for (size_t at = 0; at < view.size(); at += Utf8SequenceLength(view[at])) {
      const char c = view[at];
      if (static_cast<unsigned char>(c) >= 0x80) {
        if (style_.ensure_ascii) {
          WriteEscape(DecodeUtf8At(view, at));
          if (!budget_.ok()) return;
        } else {
          out_.append(view.data() + at, Utf8SequenceLength(c));
        }
      } else if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        WriteControl(c);
        if (!budget_.ok()) return;
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  void WriteControl(char c) {
    constexpr absl::string_view kNamed = "\b\f\n\r\t";
    constexpr absl::string_view kLetters = "bfnrt";
    const size_t at = kNamed.find(c);
    if (at == absl::string_view::npos) {
      WriteEscape(static_cast<unsigned char>(c));
    } else {
      out_ += '\\';
      out_ += kLetters[at];
    }
  }

  void WriteEscape(uint32_t c) {
    budget_.Allocate(12);  // a surrogate pair
    if (c >= 0x10000) {
      absl::StrAppendFormat(&out_, "\\u%04x", 0xD800 + ((c - 0x10000) >> 10));
      c = 0xDC00 + ((c - 0x10000) & 0x3FF);
    }
    absl::StrAppendFormat(&out_, "\\u%04x", c);
  }

  const JsonStyle& style_;
  const std::string item_separator_;
  Budget& budget_;
  std::string out_;
  size_t charged_ = 0;  // bytes of out_ that the budget has been charged for
  bool marked_ = false;
};

}  // namespace

absl::StatusOr<Value> FromJson(const Json& json, Budget& budget) {
  return FromJsonAt(json, 1, budget);
}

absl::StatusOr<Text> ToJson(const Value& value, const JsonStyle& style, Budget& budget) {
  JsonWriter writer(style, budget);
  OCTAVO_RETURN_IF_ERROR(writer.Write(value, 0));
  return writer.Finish();
}

}  // namespace octavo::jinja
