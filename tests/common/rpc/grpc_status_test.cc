#include "common/rpc/grpc_status.h"

#include "common/rpc/error_details.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace octavo {
namespace {

TEST(GrpcStatus, CarriesCodeMessageAndEveryDetailBothWays) {
  absl::Status status = absl::ResourceExhaustedError("the queue holds 4096 requests");
  status = WithRetryDelay(status, absl::Milliseconds(1500));
  status = WithQuotaFailure(status, "max-queued-requests", "4096 of 4096 are waiting");
  status = WithResource(status, {"request", "r-1"});
  const absl::Status back = FromGrpcStatus(ToGrpcStatus(status));
  EXPECT_EQ(back, status);
  EXPECT_EQ(RetryDelayOf(back), absl::Milliseconds(1500));
  EXPECT_EQ(QuotaFailureOf(back),
            (std::vector<FieldViolation>{{"max-queued-requests", "4096 of 4096 are waiting"}}));
  EXPECT_EQ(ResourceOf(back), (ResourceDetail{"request", "r-1"}));
  EXPECT_TRUE(BadRequestOf(back).empty());
}

TEST(GrpcStatus, DetailsAreGoogleRpcMessages) {
  const grpc::Status wire = ToGrpcStatus(InvalidField("sampling.top_p", "is 2; in (0, 1]"));
  google::rpc::Status status;
  ASSERT_TRUE(status.ParseFromString(wire.error_details()));
  EXPECT_EQ(status.code(), 3);
  EXPECT_EQ(status.message(), "sampling.top_p: is 2; in (0, 1]");
  ASSERT_EQ(status.details_size(), 1);
  EXPECT_EQ(status.details(0).type_url(), "type.googleapis.com/google.rpc.BadRequest");
  google::rpc::BadRequest bad;
  ASSERT_TRUE(bad.ParseFromString(status.details(0).value()));
  EXPECT_EQ(bad.field_violations(0).field(), "sampling.top_p");
}

TEST(GrpcStatus, EveryCodeSurvives) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "m");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
  }
  EXPECT_TRUE(FromGrpcStatus(ToGrpcStatus(absl::OkStatus())).ok());
}

TEST(GrpcStatus, UnknownCodesAndBrokenDetailsAreNotTrusted) {
  EXPECT_EQ(FromGrpcStatus(grpc::Status(grpc::StatusCode::DO_NOT_USE, "m")).code(),
            absl::StatusCode::kUnknown);
  const absl::Status broken =
      FromGrpcStatus(grpc::Status(grpc::StatusCode::INTERNAL, "m", "\xff\xff\xff"));
  EXPECT_EQ(broken, absl::InternalError("m"));
  absl::Status junk = absl::InternalError("m");
  junk.SetPayload("type.googleapis.com/google.rpc.RetryInfo", absl::Cord("\xff"));
  EXPECT_EQ(RetryDelayOf(junk), std::nullopt);
}

TEST(ErrorDetails, UnservedFieldsAreNamedInMessageAndDetail) {
  const absl::Status status =
      UnservedFields({{"sampling.n", "is 3"}, {"sampling.stop", "has 1 text"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(), "this version does not serve: sampling.n, sampling.stop");
  EXPECT_EQ(BadRequestOf(status).size(), 2u);
}

}  // namespace
}  // namespace octavo
