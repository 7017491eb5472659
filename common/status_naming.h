// Says what an error is about, where only the caller knows.
#ifndef OCTAVO_COMMON_STATUS_NAMING_H_
#define OCTAVO_COMMON_STATUS_NAMING_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace octavo {

// "what: message", with the code. OK stays OK.
inline absl::Status Naming(absl::string_view what, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
}

}  // namespace octavo

#endif  // OCTAVO_COMMON_STATUS_NAMING_H_
