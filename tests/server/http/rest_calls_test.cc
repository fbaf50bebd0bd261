#include "server/http/rest_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

// Says who asks in place of its name.
class AskedService : public inference::GRPCInferenceService::Service {
  grpc::Status ServerMetadata(
      grpc::ServerContext* context, const inference::ServerMetadataRequest*,
      inference::ServerMetadataResponse* response) override {
    const auto header = context->client_metadata().find("authorization");
    if (header != context->client_metadata().end()) {
      response->set_name(
          std::string(header->second.data(), header->second.size()));
    }
    return grpc::Status::OK;
  }
};

class RestCallsTest : public ::testing::Test {
 protected:
  RestCallsTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    calls_ = std::make_unique<RestCalls>(
        RestOptions{.get_timeout = absl::Minutes(1),
                    .most_body_bytes = 8,
                    .most_calls = 1,
                    .post_timeout = absl::Minutes(1),
                    .trusted = {}},
        server_->InProcessChannel({}));
  }
  ~RestCallsTest() override {
    calls_.reset();
    server_->Shutdown();
  }

  AskedService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<RestCalls> calls_;
};

TEST_F(RestCallsTest, TheServiceLearnsWhoAsks) {
  HttpRequest request;
  request.headers.push_back({"Authorization", "Bearer x"});
  inference::ServerMetadataResponse answer;
  const absl::Status asked =
      calls_->AskNow(&RestCalls::Stub::ServerMetadata,
                     inference::ServerMetadataRequest(), request, &answer);
  ASSERT_TRUE(asked.ok()) << asked;
  EXPECT_EQ(answer.name(), "Bearer x");
}

TEST_F(RestCallsTest, AnOpenPostHasItsBodyAndIsAsked) {
  HttpRequest request;
  request.body = "{}";
  request.headers.push_back({"Authorization", "Bearer x"});
  const auto post = calls_->Open(request);
  ASSERT_TRUE(post.ok()) << post.status();
  EXPECT_EQ(post->body, "{}");
  const absl::Status asked = calls_->Ask(*post->call, "ServerMetadata", "");
  ASSERT_TRUE(asked.ok()) << asked;
  EXPECT_THAT(post->call->message(), HasSubstr("Bearer x"));
}

TEST_F(RestCallsTest, NoMoreThanTheMostAreOpen) {
  HttpRequest request;
  EXPECT_FALSE(calls_->Refuse(request).has_value());
  {
    const auto post = calls_->Open(request);
    ASSERT_TRUE(post.ok()) << post.status();
    const auto refused = calls_->Refuse(request);
    ASSERT_TRUE(refused.has_value());
    EXPECT_EQ(refused->status, 503);
    EXPECT_TRUE(absl::IsUnavailable(calls_->Open(request).status()));
  }
  EXPECT_FALSE(calls_->Refuse(request).has_value());
}

TEST_F(RestCallsTest, APostOfAnotherOriginIsRefused) {
  HttpRequest request;
  request.headers.push_back({"Origin", "http://other.example"});
  request.headers.push_back({"Host", "127.0.0.1:8000"});
  const auto refused = calls_->Refuse(request);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 403);
}

}  // namespace
}  // namespace gpupool::server
