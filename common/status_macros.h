// Early returns for absl::Status and absl::StatusOr.
//
//   OCTAVO_RETURN_IF_ERROR(file.Open(path));
//   OCTAVO_ASSIGN_OR_RETURN(auto tensor, checkpoint.Tensor(role));
#ifndef OCTAVO_COMMON_STATUS_MACROS_H_
#define OCTAVO_COMMON_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define OCTAVO_RETURN_IF_ERROR(expression)                                                    \
  do {                                                                                        \
    if (absl::Status octavo_status = (expression); !octavo_status.ok()) return octavo_status; \
  } while (false)

#define OCTAVO_STATUS_CONCAT_INNER(a, b) a##b
#define OCTAVO_STATUS_CONCAT(a, b) OCTAVO_STATUS_CONCAT_INNER(a, b)
#define OCTAVO_ASSIGN_OR_RETURN(target, expression) \
  OCTAVO_ASSIGN_OR_RETURN_INNER(OCTAVO_STATUS_CONCAT(octavo_result_, __LINE__), target, expression)
#define OCTAVO_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                     \
  if (!result.ok()) return std::move(result).status();            \
  target = *std::move(result)

#endif  // OCTAVO_COMMON_STATUS_MACROS_H_
