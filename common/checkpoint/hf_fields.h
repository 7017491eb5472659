// Fields of a config.json as members of a struct.
#ifndef OCTAVO_COMMON_CHECKPOINT_HF_FIELDS_H_
#define OCTAVO_COMMON_CHECKPOINT_HF_FIELDS_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/json_reader.h"
#include "common/status_macros.h"

namespace octavo {

inline absl::Status RequiredField(const JsonObject& object, absl::string_view key, int32_t* field) {
  OCTAVO_ASSIGN_OR_RETURN(const auto value,
                          object.Integer(key, 1, std::numeric_limits<int32_t>::max()));
  if (!value) return object.Missing(key);
  *field = static_cast<int32_t>(*value);
  return absl::OkStatus();
}

// These leave `field` as it is when the key is absent or null.
inline absl::Status OptionalField(const JsonObject& object, absl::string_view key, int32_t* field) {
  OCTAVO_ASSIGN_OR_RETURN(const auto value,
                          object.Integer(key, 1, std::numeric_limits<int32_t>::max()));
  if (value) *field = static_cast<int32_t>(*value);
  return absl::OkStatus();
}

inline absl::Status OptionalField(const JsonObject& object, absl::string_view key, float* field) {
  OCTAVO_ASSIGN_OR_RETURN(const auto value, object.Number(key));
  if (value) *field = static_cast<float>(*value);
  return absl::OkStatus();
}

inline absl::Status OptionalField(const JsonObject& object, absl::string_view key, bool* field) {
  OCTAVO_ASSIGN_OR_RETURN(const auto value, object.Bool(key));
  if (value) *field = *value;
  return absl::OkStatus();
}

}  // namespace octavo

#endif  // OCTAVO_COMMON_CHECKPOINT_HF_FIELDS_H_
