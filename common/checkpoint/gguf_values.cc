// Typed access to GGUF metadata.
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/gguf.h"
#include "common/status_macros.h"

namespace octavo {
namespace {

std::optional<int64_t> ToInt64(const GgufValue& value) {
  if (const int64_t* number = std::get_if<int64_t>(&value.value)) return *number;
  if (const uint64_t* number = std::get_if<uint64_t>(&value.value)) {
    if (*number <= uint64_t{std::numeric_limits<int64_t>::max()}) return *number;
  }
  return std::nullopt;
}

template <typename T>
T Element(std::span<const std::byte> raw, int64_t index) {
  T value;
  std::memcpy(&value, raw.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

absl::string_view Name(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
      return "uint8";
    case GgufType::kInt8:
      return "int8";
    case GgufType::kUint16:
      return "uint16";
    case GgufType::kInt16:
      return "int16";
    case GgufType::kUint32:
      return "uint32";
    case GgufType::kInt32:
      return "int32";
    case GgufType::kFloat32:
      return "float32";
    case GgufType::kBool:
      return "bool";
    case GgufType::kString:
      return "string";
    case GgufType::kArray:
      return "array";
    case GgufType::kUint64:
      return "uint64";
    case GgufType::kInt64:
      return "int64";
    case GgufType::kFloat64:
      return "float64";
  }
  return "unknown";
}

float GgufArray::Float(int64_t index) const { return Element<float>(raw, index); }

std::optional<int64_t> GgufArray::Integer(int64_t index) const {
  switch (type) {
    case GgufType::kUint8:
      return Element<uint8_t>(raw, index);
    case GgufType::kInt8:
      return Element<int8_t>(raw, index);
    case GgufType::kUint16:
      return Element<uint16_t>(raw, index);
    case GgufType::kInt16:
      return Element<int16_t>(raw, index);
    case GgufType::kUint32:
      return Element<uint32_t>(raw, index);
    case GgufType::kInt32:
      return Element<int32_t>(raw, index);
    case GgufType::kInt64:
      return Element<int64_t>(raw, index);
    case GgufType::kUint64: {
      const uint64_t value = Element<uint64_t>(raw, index);
      if (value > uint64_t{std::numeric_limits<int64_t>::max()}) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

const GgufValue* GgufFile::Find(absl::string_view key) const {
  const auto it = metadata_.find(key);
  return it == metadata_.end() ? nullptr : &it->second;
}

absl::Status GgufFile::WrongType(absl::string_view key, const GgufValue& value,
                                 absl::string_view wanted) const {
  return absl::InvalidArgumentError(absl::StrCat(path_, ": metadata \"", key, "\" has type ",
                                                 Name(value.type), "; ", wanted, " is expected"));
}

absl::StatusOr<std::optional<int64_t>> GgufFile::Integer(absl::string_view key, int64_t min,
                                                         int64_t max) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<int64_t>();
  if (!std::holds_alternative<int64_t>(value->value) &&
      !std::holds_alternative<uint64_t>(value->value)) {
    return WrongType(key, *value, "an integer");
  }
  const std::optional<int64_t> number = ToInt64(*value);
  if (!number || *number < min || *number > max) {
    const std::string shown =
        number ? absl::StrCat(*number) : absl::StrCat(std::get<uint64_t>(value->value));
    return absl::InvalidArgumentError(absl::StrCat(path_, ": metadata \"", key, "\" is ", shown,
                                                   "; ", min, " to ", max, " are valid"));
  }
  return number;
}

absl::StatusOr<std::optional<int64_t>> GgufFile::LayerInteger(absl::string_view key, int64_t min,
                                                              int64_t max) const {
  const GgufValue* value = Find(key);
  const GgufArray* array = value ? std::get_if<GgufArray>(&value->value) : nullptr;
  if (array == nullptr) return Integer(key, min, max);
  std::optional<int64_t> first;
  for (int64_t i = 0; i < array->count; ++i) {
    const std::optional<int64_t> number = array->Integer(i);
    if (!number) return WrongType(key, *value, "an integer or an array of integers");
    if (*number < min || *number > max) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": metadata \"", key, "\" is ", *number,
                                                     " for layer ", i, "; ", min, " to ", max,
                                                     " are valid"));
    }
    if (first && *first != *number) {
      return absl::UnimplementedError(
          absl::StrCat(path_, ": metadata \"", key, "\" is ", *first, " for layer 0 and ", *number,
                       " for layer ", i, "; layers of different sizes are not supported"));
    }
    first = number;
  }
  return first;
}

absl::StatusOr<std::optional<double>> GgufFile::Number(absl::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  if (const double* number = std::get_if<double>(&value->value)) return std::optional(*number);
  if (const auto number = ToInt64(*value)) return std::optional(static_cast<double>(*number));
  return WrongType(key, *value, "a number");
}

absl::StatusOr<std::optional<bool>> GgufFile::Bool(absl::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<bool>();
  if (const bool* flag = std::get_if<bool>(&value->value)) return std::optional(*flag);
  return WrongType(key, *value, "a bool");
}

absl::StatusOr<std::optional<absl::string_view>> GgufFile::String(absl::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::optional<absl::string_view>();
  if (const auto* text = std::get_if<absl::string_view>(&value->value)) return std::optional(*text);
  return WrongType(key, *value, "a string");
}

absl::StatusOr<const GgufArray*> GgufFile::Array(absl::string_view key, GgufType element) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return nullptr;
  const auto* array = std::get_if<GgufArray>(&value->value);
  if (array == nullptr) {
    return WrongType(key, *value, absl::StrCat("an array of ", Name(element)));
  }
  if (array->type != element) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": metadata \"", key, "\" is an array of ", Name(array->type),
                     "; an array of ", Name(element), " is expected"));
  }
  return array;
}

}  // namespace octavo
