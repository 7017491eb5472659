#include "common/checkpoint/json_reader.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace octavo {
namespace {

// Builds the value tree. nlohmann's own builder keeps the last of two equal keys and has no bound
// on depth or count.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder() = default;
  TreeBuilder(const TreeBuilder&) = delete;
  TreeBuilder& operator=(const TreeBuilder&) = delete;

  bool null() override { return Add(Json()) != nullptr; }
  bool boolean(bool value) override { return Add(Json(value)) != nullptr; }
  bool number_integer(int64_t value) override { return Add(Json(value)) != nullptr; }
  bool number_unsigned(uint64_t value) override { return Add(Json(value)) != nullptr; }
  bool number_float(double value, const std::string&) override {
    return Add(Json(value)) != nullptr;
  }
  bool string(std::string& value) override { return Add(Json(std::move(value))) != nullptr; }
  bool binary(Json::binary_t&) override { return Fail("binary data"); }
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& key) override {
    const auto [place, inserted] = open_.back()->get_ref<Json::object_t&>().try_emplace(key);
    if (!inserted) {
      return Fail(absl::StrCat("duplicate key \"", absl::CHexEscape(key.substr(0, 120)), "\""));
    }
    slot_ = &place->second;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return Fail(absl::StrCat("at byte ", position, ": ",
                             absl::CHexEscape(absl::string_view(error.what()).substr(0, 200))));
  }

  const std::string& error() const { return error_; }
  Json TakeRoot() { return std::move(root_); }

 private:
  bool Fail(std::string why) {
    error_ = std::move(why);
    return false;
  }

  // Where the value went; nullptr when a limit is exceeded.
  Json* Add(Json value) {
    if (++values_ > kMaxJsonValues) {
      Fail(absl::StrCat("more than ", kMaxJsonValues, " values"));
      return nullptr;
    }
    Json* place = &root_;
    if (slot_ != nullptr) {
      place = std::exchange(slot_, nullptr);
    } else if (!open_.empty()) {
      auto& array = open_.back()->get_ref<Json::array_t&>();
      array.emplace_back();
      place = &array.back();
    }
    *place = std::move(value);
    return place;
  }

  bool Open(Json container) {
    if (open_.size() >= kMaxJsonDepth) {
      return Fail(absl::StrCat("nested deeper than ", kMaxJsonDepth, " levels"));
    }
    Json* place = Add(std::move(container));
    if (place == nullptr) return false;
    open_.push_back(place);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // innermost last; an open container's parent does not grow
  Json* slot_ = nullptr;     // where the value of the key just read goes
  int64_t values_ = 0;
  std::string error_;
};

}  // namespace

absl::StatusOr<Json> ParseJson(absl::string_view text, absl::string_view path, size_t max_bytes) {
  if (text.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", text.size(), " bytes of JSON; the limit is ", max_bytes));
  }
  TreeBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": not valid JSON: ", builder.error().empty() ? "unexpected end" : builder.error()));
  }
  return builder.TakeRoot();
}

std::optional<int64_t> ToInt64(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > uint64_t{std::numeric_limits<int64_t>::max()}) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  return std::nullopt;
}

std::string ShowJson(const Json& value) {
  constexpr size_t kShown = 80;
  if (value.is_string()) {
    const absl::string_view text(value.get_ref<const std::string&>());
    return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kShown)),
                        text.size() > kShown ? "..." : "", "\"");
  }
  if (value.is_structured()) {
    return absl::StrCat("an ", value.type_name(), " of ", value.size());
  }
  return value.dump();
}

absl::StatusOr<JsonObject> JsonObject::From(const Json& json, absl::string_view path,
                                            absl::string_view where) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", where.empty() ? "the file" : where,
                                                   " is ", ShowJson(json),
                                                   "; an object is expected"));
  }
  return JsonObject(&json, path, where);
}

const Json* JsonObject::Find(absl::string_view key) const {
  const auto it = json_->find(std::string(key));
  return it == json_->end() || it->is_null() ? nullptr : &*it;
}

std::string JsonObject::Name(absl::string_view key) const {
  return absl::StrCat(path_, ": ", where_, where_.empty() ? "" : ".", key);
}

absl::Status JsonObject::Missing(absl::string_view key) const {
  return absl::InvalidArgumentError(absl::StrCat(Name(key), " is missing"));
}

absl::Status JsonObject::Unimplemented(absl::string_view key, absl::string_view what,
                                       absl::string_view supported) const {
  return absl::UnimplementedError(
      absl::StrCat(Name(key), " is ", what, "; ", supported, " supported"));
}

absl::Status JsonObject::WrongType(absl::string_view key, const Json& value,
                                   absl::string_view wanted) const {
  return absl::InvalidArgumentError(
      absl::StrCat(Name(key), " is ", ShowJson(value), "; ", wanted, " is expected"));
}

absl::StatusOr<std::optional<int64_t>> JsonObject::Integer(absl::string_view key, int64_t min,
                                                           int64_t max) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<int64_t>();
  if (!value->is_number_integer()) return WrongType(key, *value, "an integer");
  const std::optional<int64_t> number = ToInt64(*value);
  if (!number || *number < min || *number > max) {
    return absl::InvalidArgumentError(
        absl::StrCat(Name(key), " is ", ShowJson(*value), "; ", min, " to ", max, " are valid"));
  }
  return number;
}

absl::StatusOr<std::optional<double>> JsonObject::Number(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return WrongType(key, *value, "a number");
  return std::optional(value->get<double>());
}

absl::StatusOr<std::optional<bool>> JsonObject::Bool(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return WrongType(key, *value, "true or false");
  return std::optional(value->get<bool>());
}

absl::StatusOr<const std::string*> JsonObject::String(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_string()) return WrongType(key, *value, "a string");
  return value->get_ptr<const std::string*>();
}

absl::StatusOr<const Json*> JsonObject::Array(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) return WrongType(key, *value, "an array");
  return value;
}

absl::StatusOr<std::optional<JsonObject>> JsonObject::Object(absl::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<JsonObject>();
  if (!value->is_object()) return WrongType(key, *value, "an object");
  return std::optional(
      JsonObject(value, path_, absl::StrCat(where_, where_.empty() ? "" : ".", key)));
}

}  // namespace octavo
