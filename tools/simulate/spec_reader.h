// Numbers out of a JSON object that a user wrote, each checked against its range.
#ifndef OCTAVO_TOOLS_SIMULATE_SPEC_READER_H_
#define OCTAVO_TOOLS_SIMULATE_SPEC_READER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace octavo::simulate {

absl::StatusOr<std::string> ReadWholeFile(absl::string_view path);

// Keeps the first error; a field that is absent leaves `out` as it is, unless it is required.
class SpecReader {
 public:
  SpecReader(absl::string_view what, absl::string_view json);

  void Number(const char* field, bool required, double least, double most, double* out);
  void Integer(const char* field, bool required, int32_t* out);  // in [1, 2^30]
  void Boolean(const char* field, bool* out);
  void Text(const char* field, std::string* out);
  bool Has(const char* field) const { return object_.contains(field) && !object_[field].is_null(); }
  const absl::Status& status() const { return status_; }

 private:
  void Fail(absl::string_view message);

  const std::string what_;
  nlohmann::json object_;
  absl::Status status_;
};

}  // namespace octavo::simulate

#endif  // OCTAVO_TOOLS_SIMULATE_SPEC_READER_H_
