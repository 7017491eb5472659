// JSON in (the context of a render) and out (the tojson filter).
#ifndef OCTAVO_SCHEDULER_TEXT_JINJA_JSON_H_
#define OCTAVO_SCHEDULER_TEXT_JINJA_JSON_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "scheduler/text/jinja_value.h"

namespace octavo::jinja {

// Every string is marked, keys too. INVALID_ARGUMENT for strings that are not UTF-8, integers past
// int64 and nesting past kMaxValueDepth.
absl::StatusOr<Value> FromJson(const nlohmann::ordered_json& json, Budget& budget);

// Python's json.dumps.
struct JsonStyle {
  std::optional<std::string> indent;  // of one level; nullopt: all in one line
  std::optional<std::string> item_separator;
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
absl::StatusOr<Text> ToJson(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace octavo::jinja

#endif  // OCTAVO_SCHEDULER_TEXT_JINJA_JSON_H_
