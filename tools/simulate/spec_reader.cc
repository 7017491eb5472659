#include "tools/simulate/spec_reader.h"

#include <cmath>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace octavo::simulate {

absl::StatusOr<std::string> ReadWholeFile(absl::string_view path) {
  constexpr std::streamoff kMostBytes = 16 << 20;
  std::ifstream in{std::string(path), std::ios::binary | std::ios::ate};
  if (!in) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  const std::streamoff bytes = in.tellg();
  if (bytes > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", bytes, " bytes; at most ", kMostBytes, " are read"));
  }
  in.seekg(0);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

SpecReader::SpecReader(absl::string_view what, absl::string_view json)
    : what_(what),
      object_(nlohmann::json::parse(json.begin(), json.end(), nullptr,
                                    /*allow_exceptions=*/false)) {
  if (object_.is_object()) return;
  object_ = nlohmann::json::object();
  Fail("it is no JSON object");
}

void SpecReader::Fail(absl::string_view message) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(what_, ": ", message));
}

void SpecReader::Number(const char* field, bool required, double least, double most, double* out) {
  if (!Has(field)) {
    if (required) Fail(absl::StrCat(field, " is missing"));
    return;
  }
  const nlohmann::json& value = object_[field];
  const double number = value.is_number() ? value.get<double>() : NAN;
  if (!(number >= least && number <= most)) {
    return Fail(absl::StrCat(field, " is ", value.dump(), "; it must be a number in [", least, ", ",
                             most, "]"));
  }
  *out = number;
}

void SpecReader::Integer(const char* field, bool required, int32_t* out) {
  double number = *out;
  Number(field, required, 1, 1 << 30, &number);
  if (number != std::floor(number)) {
    return Fail(absl::StrCat(field, " is ", number, "; it must be a whole number"));
  }
  *out = static_cast<int32_t>(number);
}

void SpecReader::Boolean(const char* field, bool* out) {
  if (!Has(field)) return;
  if (!object_[field].is_boolean()) return Fail(absl::StrCat(field, " must be true or false"));
  *out = object_[field].get<bool>();
}

void SpecReader::Text(const char* field, std::string* out) {
  if (!Has(field)) return;
  if (!object_[field].is_string()) return Fail(absl::StrCat(field, " must be a string"));
  *out = object_[field].get<std::string>();
}

}  // namespace octavo::simulate
