#include "common/rpc/error_details.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "google/rpc/error_details.pb.h"

namespace octavo {
namespace {

template <typename Message>
std::string TypeUrl() {
  return absl::StrCat("type.googleapis.com/", Message::descriptor()->full_name());
}

template <typename Message>
absl::Status With(absl::Status status, const Message& message) {
  OCTAVO_CHECK(!status.ok(), "details belong to errors");
  status.SetPayload(TypeUrl<Message>(), absl::Cord(message.SerializeAsString()));
  return status;
}

template <typename Message>
std::optional<Message> Get(const absl::Status& status) {
  const auto payload = status.GetPayload(TypeUrl<Message>());
  Message message;
  if (!payload.has_value() || !message.ParseFromString(std::string(*payload))) return std::nullopt;
  return message;
}

}  // namespace

absl::Status InvalidField(absl::string_view field, absl::string_view description) {
  return WithBadRequest(absl::InvalidArgumentError(absl::StrCat(field, ": ", description)),
                        {{std::string(field), std::string(description)}});
}

absl::Status FieldOutOfRange(absl::string_view field, absl::string_view value,
                             absl::string_view limit) {
  return InvalidField(field, absl::StrCat("is ", value, "; it must be ", limit));
}

absl::Status UnservedFields(const std::vector<FieldViolation>& fields) {
  const std::string names = absl::StrJoin(
      fields, ", ", [](std::string* out, const FieldViolation& v) { out->append(v.field); });
  return WithBadRequest(
      absl::UnimplementedError(absl::StrCat("this version does not serve: ", names)), fields);
}

absl::Status WithBadRequest(absl::Status status, const std::vector<FieldViolation>& violations) {
  google::rpc::BadRequest detail;
  for (const FieldViolation& violation : violations) {
    auto* out = detail.add_field_violations();
    out->set_field(violation.field);
    out->set_description(violation.description);
  }
  return With(std::move(status), detail);
}

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  google::rpc::RetryInfo detail;
  const int64_t nanos = absl::ToInt64Nanoseconds(std::max(delay, absl::ZeroDuration()));
  detail.mutable_retry_delay()->set_seconds(nanos / 1'000'000'000);
  detail.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanos % 1'000'000'000));
  return With(std::move(status), detail);
}

absl::Status WithQuotaFailure(absl::Status status, absl::string_view subject,
                              absl::string_view description) {
  google::rpc::QuotaFailure detail;
  auto* out = detail.add_violations();
  out->set_subject(std::string(subject));
  out->set_description(std::string(description));
  return With(std::move(status), detail);
}

absl::Status WithResource(absl::Status status, const ResourceDetail& resource) {
  google::rpc::ResourceInfo detail;
  detail.set_resource_type(resource.type);
  detail.set_resource_name(resource.name);
  detail.set_description(std::string(status.message()));
  return With(std::move(status), detail);
}

std::vector<FieldViolation> BadRequestOf(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  if (const auto detail = Get<google::rpc::BadRequest>(status))
    for (const auto& v : detail->field_violations())
      violations.push_back({v.field(), v.description()});
  return violations;
}

std::vector<FieldViolation> QuotaFailureOf(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  if (const auto detail = Get<google::rpc::QuotaFailure>(status))
    for (const auto& v : detail->violations()) violations.push_back({v.subject(), v.description()});
  return violations;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const auto detail = Get<google::rpc::RetryInfo>(status);
  if (!detail.has_value() || !detail->has_retry_delay()) return std::nullopt;
  return absl::Seconds(detail->retry_delay().seconds()) +
         absl::Nanoseconds(detail->retry_delay().nanos());
}

std::optional<ResourceDetail> ResourceOf(const absl::Status& status) {
  const auto detail = Get<google::rpc::ResourceInfo>(status);
  if (!detail.has_value()) return std::nullopt;
  return ResourceDetail{detail->resource_type(), detail->resource_name()};
}

}  // namespace octavo
