// JSON from files that users hand in: bounded, without exceptions, duplicate keys refused.
#ifndef OCTAVO_COMMON_CHECKPOINT_JSON_READER_H_
#define OCTAVO_COMMON_CHECKPOINT_JSON_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace octavo {

using Json = nlohmann::json;

inline constexpr int kMaxJsonDepth = 64;
inline constexpr int64_t kMaxJsonValues = 4'000'000;

// INVALID_ARGUMENT naming `path`, and the position and cause, or the limit that the text exceeds.
absl::StatusOr<Json> ParseJson(absl::string_view text, absl::string_view path, size_t max_bytes);

// An object inside a file. The getters answer nullopt (or nullptr) for a key that is absent or
// null, and INVALID_ARGUMENT naming file and key for a value of another type or out of range.
// Refers to the Json, which must outlive it.
class JsonObject {
 public:
  // INVALID_ARGUMENT when `json` is not an object. `where` is its place in the file, for messages:
  // "" for the top, "rope_scaling", "model.vocab".
  static absl::StatusOr<JsonObject> From(const Json& json, absl::string_view path,
                                         absl::string_view where);

  const Json& json() const { return *json_; }
  const Json* Find(absl::string_view key) const;
  absl::StatusOr<std::optional<int64_t>> Integer(absl::string_view key, int64_t min,
                                                 int64_t max) const;
  absl::StatusOr<std::optional<double>> Number(absl::string_view key) const;
  absl::StatusOr<std::optional<bool>> Bool(absl::string_view key) const;
  absl::StatusOr<const std::string*> String(absl::string_view key) const;
  absl::StatusOr<const Json*> Array(absl::string_view key) const;
  absl::StatusOr<std::optional<JsonObject>> Object(absl::string_view key) const;

  // "config.json: rope_scaling.factor"
  std::string Name(absl::string_view key) const;
  absl::Status Missing(absl::string_view key) const;
  // `what` is how the key's value reads in the message: a number, a string in quotes.
  absl::Status Unimplemented(absl::string_view key, absl::string_view what,
                             absl::string_view supported) const;

 private:
  JsonObject(const Json* json, absl::string_view path, absl::string_view where)
      : json_(json), path_(path), where_(where) {}

  absl::Status WrongType(absl::string_view key, const Json& value, absl::string_view wanted) const;

  const Json* json_;
  std::string path_;
  std::string where_;
};

// The value as int64 when it is an integer that fits.
std::optional<int64_t> ToInt64(const Json& value);

// A value for a message: short, one line.
std::string ShowJson(const Json& value);

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_JSON_READER_H_
