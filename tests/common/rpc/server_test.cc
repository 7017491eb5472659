#include "common/rpc/server.h"

#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "common/rpc/health_client.h"
#include "gtest/gtest.h"
#include "octavo/worker/v1/worker.grpc.pb.h"

namespace octavo {
namespace {

constexpr char kName[] = "octavo.worker.v1.Worker";

class DescribesItself : public worker::v1::Worker::CallbackService {
 public:
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const worker::v1::DescribeRequest*,
                                     worker::v1::DescribeResponse* response) override {
    response->set_name(std::string(5 << 20, 'x'));
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  // Stays silent until its call is cancelled.
  grpc::ServerWriteReactor<worker::v1::LoadProgress>* Load(
      grpc::CallbackServerContext*, const worker::v1::LoadRequest*) override {
    class Silent : public grpc::ServerWriteReactor<worker::v1::LoadProgress> {
     public:
      void OnCancel() override { Finish(grpc::Status(grpc::StatusCode::CANCELLED, "")); }
      void OnDone() override { delete this; }
    };
    return new Silent;
  }
};

TEST(RpcServer, ListensOnAFreePortAndReportsIt) {
  DescribesItself service;
  const auto server = RpcServer::Start({.health_services = {kName}}, {&service});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_GT((*server)->port(), 0);
  EXPECT_EQ((*server)->address(), "127.0.0.1:" + std::to_string((*server)->port()));
}

TEST(RpcServer, HealthSaysAliveAtOnceAndReadyWhenSet) {
  DescribesItself service;
  const auto server = RpcServer::Start({.health_services = {kName}}, {&service});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string target = (*server)->address();
  EXPECT_TRUE(CheckHealth(target, "", absl::Seconds(5)).ok());
  EXPECT_EQ(CheckHealth(target, kName, absl::Seconds(5)).code(), absl::StatusCode::kUnavailable);
  (*server)->SetServing(kName, true);
  EXPECT_TRUE(CheckHealth(target, kName, absl::Seconds(5)).ok());
  EXPECT_EQ(CheckHealth(target, "no.such.Service", absl::Seconds(5)).code(),
            absl::StatusCode::kNotFound);
}

TEST(RpcServer, ATakenPortIsNamed) {
  DescribesItself first, second;
  const auto server = RpcServer::Start({}, {&first});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto again = RpcServer::Start({.port = (*server)->port()}, {&second});
  EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(again.status().message(),
            "cannot listen on " + (*server)->address() + ": Address already in use");
}

TEST(RpcServer, RefusesForeignAddressesAndWildPorts) {
  DescribesItself service;
  EXPECT_EQ(RpcServer::Start({.host = "192.0.2.1"}, {&service}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RpcServer::Start({.port = 70000}, {&service}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(RpcServer, SendsMessagesBeyondFourMebibytes) {
  DescribesItself service;
  const auto server = RpcServer::Start({}, {&service});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto channel = grpc::CreateCustomChannel(
      (*server)->address(), grpc::InsecureChannelCredentials(), ClientChannelArguments());
  const auto stub = worker::v1::Worker::NewStub(channel);
  grpc::ClientContext context;
  worker::v1::DescribeResponse response;
  const grpc::Status status = stub->Describe(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.name().size(), size_t{5} << 20);
}

TEST(RpcServer, ShutdownCancelsWhatOutlivesItsGrace) {
  DescribesItself service;
  const auto server = RpcServer::Start({}, {&service});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string target = (*server)->address();
  const auto stub =
      worker::v1::Worker::NewStub(grpc::CreateChannel(target, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto reader = stub->Load(&context, {});
  const absl::Time start = absl::Now();
  std::thread shutdown([&] { (*server)->Shutdown(absl::Milliseconds(200)); });
  worker::v1::LoadProgress progress;
  EXPECT_FALSE(reader->Read(&progress));
  EXPECT_FALSE(reader->Finish().ok());
  shutdown.join();
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  EXPECT_FALSE(CheckHealth(target, "", absl::Seconds(2)).ok());
  (*server)->Shutdown(absl::ZeroDuration());
}

TEST(CheckHealth, NobodyListeningIsUnavailableQuickly) {
  const absl::Time start = absl::Now();
  EXPECT_EQ(CheckHealth("127.0.0.1:1", "", absl::Seconds(2)).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_LT(absl::Now() - start, absl::Seconds(2));
}

TEST(HostPort, ParsesNamesAndBothAddressFamilies) {
  EXPECT_EQ(ParseHostPort("worker-0:50061")->host, "worker-0");
  EXPECT_EQ(ParseHostPort("[::1]:0")->host, "::1");
  EXPECT_EQ(JoinHostPort("::1", 7), "[::1]:7");
  for (const char* bad :
       {"", "host", ":1", "host:", "host:x", "host:70000", "host:-1", "::1:80", "[]:80", "host:1x"})
    EXPECT_FALSE(ParseHostPort(bad).ok()) << bad;
}

}  // namespace
}  // namespace octavo
