#include "server/http/http_server.h"

#include <grpcpp/grpcpp.h>
#include <httplib.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/server/http/port/raw_client.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class FakeService : public inference::GRPCInferenceService::Service {
 public:
  grpc::Status ServerLive(grpc::ServerContext*,
                          const inference::ServerLiveRequest*,
                          inference::ServerLiveResponse* response) override {
    response->set_live(true);
    return grpc::Status(live_code, "why");
  }
  grpc::Status ServerReady(grpc::ServerContext*,
                           const inference::ServerReadyRequest*,
                           inference::ServerReadyResponse* response) override {
    response->set_ready(ready);
    return grpc::Status::OK;
  }
  grpc::Status ServerMetadata(
      grpc::ServerContext*, const inference::ServerMetadataRequest*,
      inference::ServerMetadataResponse* response) override {
    response->set_name("gpupool");
    return grpc::Status::OK;
  }
  grpc::Status ModelReady(grpc::ServerContext*,
                          const inference::ModelReadyRequest* request,
                          inference::ModelReadyResponse* response) override {
    response->set_ready(request->name() == "digits" &&
                        request->version() != "2");
    return grpc::Status::OK;
  }
  grpc::Status ModelMetadata(
      grpc::ServerContext*, const inference::ModelMetadataRequest* request,
      inference::ModelMetadataResponse* response) override {
    if (request->name() != "digits") {
      return {grpc::NOT_FOUND, "'" + request->name() + "' is not found"};
    }
    response->set_name("digits");
    response->add_versions(request->version().empty() ? "1"
                                                      : request->version());
    return grpc::Status::OK;
  }

  std::atomic<bool> ready{true};
  std::atomic<grpc::StatusCode> live_code{grpc::OK};
};

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    grpc_ = builder.BuildAndStart();
    http_ = *HttpServer::Start({.max_body_bytes = 1024},
                               grpc_->InProcessChannel({}));
    client_ = std::make_unique<httplib::Client>("127.0.0.1", http_->port());
  }

  void Expect(const std::string& path, int status, const std::string& body) {
    const auto result = client_->Get(path);
    ASSERT_TRUE(result) << path;
    EXPECT_EQ(result->status, status) << path;
    EXPECT_EQ(result->body, body) << path;
    EXPECT_EQ(result->get_header_value("Content-Type"), "application/json");
  }

  FakeService service_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<httplib::Client> client_;
};

TEST_F(HttpServerTest, TellsLivenessAndReadiness) {
  Expect("/v2/health/live", 200, R"({"live":true})");
  Expect("/v2/health/ready", 200, R"({"ready":true})");
  service_.ready = false;
  Expect("/v2/health/ready", 400, R"({"ready":false})");
}

TEST_F(HttpServerTest, TellsWhoTheServerIs) {
  Expect("/v2", 200, R"({"name":"gpupool","version":"","extensions":[]})");
}

TEST_F(HttpServerTest, DescribesModelsAndVersions) {
  const std::string rest = R"(,"platform":"","inputs":[],"outputs":[]})";
  Expect("/v2/models/digits", 200,
         R"({"name":"digits","versions":["1"])" + rest);
  Expect("/v2/models/digits/versions/3", 200,
         R"({"name":"digits","versions":["3"])" + rest);
  Expect("/v2/models/cats", 404, R"({"error":"'cats' is not found"})");
  Expect("/v2/models/digits/ready", 200, R"({"name":"digits","ready":true})");
  Expect("/v2/models/digits/versions/2/ready", 400,
         R"({"name":"digits","ready":false})");
}

TEST_F(HttpServerTest, UnknownPathsAndMethodsAreErrorsInJson) {
  Expect("/v2/models", 404, R"({"error":"no GET /v2/models"})");
  const auto posted = client_->Post("/v2/health/live", "{}", "text/plain");
  ASSERT_TRUE(posted);
  EXPECT_EQ(posted->status, 405);
  EXPECT_EQ(posted->get_header_value("Allow"), "GET, HEAD");
  EXPECT_EQ(
      posted->body,
      R"({"error":"no POST /v2/health/live; its methods are GET, HEAD"})");
}

TEST_F(HttpServerTest, LargeBodiesAreRefused) {
  const auto posted =
      client_->Post("/v2", std::string(4096, 'x'), "text/plain");
  ASSERT_TRUE(posted);
  EXPECT_EQ(posted->status, 413);
  Expect("/v2/health/live", 200, R"({"live":true})");
}

TEST_F(HttpServerTest, LargeBodiesWithoutALengthAreRefused) {
  const std::string large(4096, 'x');
  for (const char* path : {"/v2", "/a%0Ab"}) {
    const auto posted = client_->Post(
        path,
        [&](size_t, httplib::DataSink& sink) {
          sink.write(large.data(), large.size());
          sink.done();
          return true;
        },
        "text/plain");
    ASSERT_TRUE(posted) << path;
    EXPECT_EQ(posted->status, 413) << path;
  }
}

// Web pages may send such requests, with any body, to any address.
TEST_F(HttpServerTest, ABodyIsNeverTakenForARequest) {
  const std::string second = "GET /v2/health/live HTTP/1.1\r\nHost: h\r\n\r\n";
  const std::string length =
      absl::StrCat("Host: h\r\nContent-Length: ", second.size(), "\r\n");
  const std::string firsts[] = {
      // The path is too long.
      absl::StrCat("POST /", std::string(9000, 'a'), " HTTP/1.1\r\n", length,
                   "\r\n"),
      // No route takes it.
      absl::StrCat("POST /v2 HTTP/1.1\r\n", length,
                   "Content-Type: multipart/form-data\r\n\r\n")};
  for (const std::string& first : firsts) {
    RawClient client(http_->port());
    client.Send(first);
    client.Send(second);
    client.EndSending();
    const std::string answers = client.ReceiveAll();
    EXPECT_THAT(answers, ::testing::StartsWith("HTTP/1.1 4"));
    EXPECT_EQ(answers.find("HTTP/1.1", 1), answers.npos) << answers;
  }
}

TEST_F(HttpServerTest, AnRpcThatFailsIsItsHttpStatus) {
  const std::pair<grpc::StatusCode, int> rows[] = {
      {grpc::INVALID_ARGUMENT, 400}, {grpc::NOT_FOUND, 404},
      {grpc::UNAVAILABLE, 503},      {grpc::UNIMPLEMENTED, 501},
      {grpc::INTERNAL, 500},         {grpc::RESOURCE_EXHAUSTED, 429},
      {grpc::DEADLINE_EXCEEDED, 504}};
  for (const auto& [code, status] : rows) {
    service_.live_code = code;
    Expect("/v2/health/live", status, R"({"error":"why"})");
  }
}

TEST_F(HttpServerTest, OneConnectionCarriesManyRequests) {
  RawClient client(http_->port());
  for (const char* path : {"/v2/health/live", "/api", "/", "/v2/nothing"}) {
    client.Send(absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: h\r\n\r\n"));
    EXPECT_GT(client.ReceiveAnswer().status, 0) << path;
  }
}

TEST_F(HttpServerTest, SlowClientsDelayNoProbe) {
  std::vector<RawClient> slow;
  for (int i = 0; i < 200; ++i) {
    slow.emplace_back(http_->port());
    if (i % 2 == 0) continue;  // silent
    slow.back().Send(
        "POST /v2/models/digits/infer HTTP/1.1\r\nHost: h\r\n"
        "Content-Length: 9\r\n\r\n{");
  }
  Expect("/v2/health/live", 200, R"({"live":true})");
  Expect("/v2/health/ready", 200, R"({"ready":true})");
  for (RawClient& client : slow) EXPECT_TRUE(client.Send(" "));
}

TEST_F(HttpServerTest, APortThatIsTakenOrImpossibleIsNamed) {
  const auto taken =
      HttpServer::Start({.port = http_->port()}, grpc_->InProcessChannel({}));
  EXPECT_TRUE(absl::IsUnavailable(taken.status())) << taken.status();
  EXPECT_THAT(std::string(taken.status().message()),
              HasSubstr(std::to_string(http_->port())));
  EXPECT_TRUE(absl::IsInvalidArgument(
      HttpServer::Start({.port = 70000}, nullptr).status()));
}

}  // namespace
}  // namespace gpupool::server
