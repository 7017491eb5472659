// google.rpc error details carried as payloads of an absl::Status: what was wrong, the value, the
// limit, and when to retry. common/rpc/grpc_status.h puts them on the wire and reads them back.
//
//   return WithRetryDelay(absl::ResourceExhaustedError("the queue holds 4096 requests"),
//                         absl::Seconds(1));
#ifndef OCTAVO_COMMON_RPC_ERROR_DETAILS_H_
#define OCTAVO_COMMON_RPC_ERROR_DETAILS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace octavo {

// One entry of google.rpc.BadRequest or google.rpc.QuotaFailure (there `field` is the subject).
struct FieldViolation {
  std::string field;        // path in the request message: "sampling.top_p"
  std::string description;  // with the value and the limit
  friend bool operator==(const FieldViolation&, const FieldViolation&) = default;
};

struct ResourceDetail {
  std::string type;  // "request", "model"
  std::string name;
  friend bool operator==(const ResourceDetail&, const ResourceDetail&) = default;
};

// INVALID_ARGUMENT whose message is "field: description", with that BadRequest.
absl::Status InvalidField(absl::string_view field, absl::string_view description);
// InvalidField of a value and what it must be: "sampling.n: is 65; it must be in [1, 64]".
absl::Status FieldOutOfRange(absl::string_view field, absl::string_view value,
                             absl::string_view limit);
// UNIMPLEMENTED with one violation per field; the message names them all.
absl::Status UnservedFields(const std::vector<FieldViolation>& fields);

// Each adds one detail (replacing one of its kind) and keeps code, message and other details.
// REQUIRES: !status.ok().
absl::Status WithBadRequest(absl::Status status, const std::vector<FieldViolation>& violations);
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);
absl::Status WithQuotaFailure(absl::Status status, absl::string_view subject,
                              absl::string_view description);
absl::Status WithResource(absl::Status status, const ResourceDetail& resource);

// Empty or nullopt when the status carries no such detail, or one that does not parse.
std::vector<FieldViolation> BadRequestOf(const absl::Status& status);
std::vector<FieldViolation> QuotaFailureOf(const absl::Status& status);
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);
std::optional<ResourceDetail> ResourceOf(const absl::Status& status);

}  // namespace octavo

#endif  // OCTAVO_COMMON_RPC_ERROR_DETAILS_H_
