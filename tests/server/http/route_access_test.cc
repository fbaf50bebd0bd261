#include "server/http/route_access.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "server/auth/method_roles.h"
#include "server/auth/secret.h"
#include "server/http/http_server.h"
#include "server/http/http_status.h"
#include "server/http/json_gateway.h"
#include "server/http/rest_routes.h"
#include "server/http/web_routes.h"
#include "tests/server/auth/connect_as.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

// Answers with the header that came.
class EchoJobs : public v1::JobService::Service {
 public:
  grpc::Status ListJobs(grpc::ServerContext* context,
                        const v1::ListJobsRequest*,
                        v1::ListJobsResponse* response) override {
    const auto& metadata = context->client_metadata();
    const auto found = metadata.find("authorization");
    if (found != metadata.end()) {
      response->set_next_page_token(
          std::string(found->second.data(), found->second.size()));
    }
    return grpc::Status::OK;
  }
};

class RouteAccessTest : public ::testing::Test {
 protected:
  explicit RouteAccessTest(FreeCallers free = FreeCallers::kNone)
      : gate_(free, absl::Now) {
    secret_ = *NewSecret();
    v1::StoredToken stored;
    stored.mutable_token()->set_id(1);
    stored.mutable_token()->set_role(v1::VIEWER);
    stored.set_secret_sha256(DigestOf(secret_));
    gate_.tokens().Put(stored);
    grpc::ServerBuilder builder;
    builder.RegisterService(&jobs_);
    grpc_ = builder.BuildAndStart();
    auto http =
        HttpServer::Start({.gate = &gate_}, grpc_->InProcessChannel({}));
    EXPECT_TRUE(http.ok()) << http.status();
    http_ = *std::move(http);
  }

  httplib::Client NewClient() const {
    httplib::Client client("127.0.0.1", http_->port());
    client.set_read_timeout(absl::ToInt64Seconds(kPatience));
    return client;
  }

  httplib::Headers Token() const {
    return {{"Authorization", "Bearer " + secret_}};
  }

  int StatusOfPost(const std::string& path, const httplib::Headers& headers) {
    const auto answer =
        NewClient().Post(path, headers, "{}", "application/json");
    EXPECT_TRUE(answer) << path;
    return answer ? answer->status : 0;
  }

  AccessGate gate_;
  std::string secret_;
  EchoJobs jobs_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<HttpServer> http_;
};

constexpr char kListJobs[] = "/api/gpupool.v1.JobService/ListJobs";

TEST_F(RouteAccessTest, EveryRouteCallsAMethodOfTheTableOrIsOpen) {
  const auto channel = grpc_->InProcessChannel({});
  RestRoutes rest({}, channel);
  JsonGateway json({}, channel);
  HttpRouter router({.error = ErrorAnswer});
  rest.AddTo(&router);
  AddWebRoutes(&router);
  json.AddRoutes(&router);
  ASSERT_GT(router.routes().size(), 20u);
  for (const HttpRoute& route : router.routes()) {
    if (route.calls == kOpenToAll) {
      EXPECT_TRUE(route.pattern == "/" || route.pattern == "/web/**")
          << route.pattern;
    } else if (route.calls != kPathBehindApi) {
      EXPECT_TRUE(LeastRoleFor(route.calls).has_value())
          << route.method << " " << route.pattern << " calls " << route.calls;
    }
  }
}

TEST_F(RouteAccessTest, ACallWithoutATokenIs401AndSaysWhatIsWanted) {
  const auto answer = NewClient().Post(kListJobs, "{}", "application/json");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 401);
  EXPECT_EQ(answer->get_header_value("WWW-Authenticate"),
            "Bearer realm=\"gpupool\"");
  EXPECT_NE(answer->body.find("UNAUTHENTICATED"), std::string::npos);
  EXPECT_EQ(StatusOfPost(kListJobs, {{"Authorization", "Bearer x"}}), 401);
  EXPECT_EQ(StatusOfPost(kListJobs, {{"Authorization", "Bearer " + secret_},
                                     {"Authorization", "Bearer " + secret_}}),
            401);
}

TEST_F(RouteAccessTest, ACallWithATokenIsMadeWithIt) {
  const auto answer =
      NewClient().Post(kListJobs, Token(), "{}", "application/json");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200) << answer->body;
  EXPECT_NE(answer->body.find("Bearer " + secret_), std::string::npos);
}

TEST_F(RouteAccessTest, ACallBeyondTheRoleIs403) {
  EXPECT_EQ(StatusOfPost("/api/gpupool.v1.JobService/CancelJob", Token()), 403);
  EXPECT_EQ(StatusOfPost("/v2/models/m/infer", Token()), 403);
  EXPECT_EQ(StatusOfPost("/v2/logging", Token()), 403);
  EXPECT_EQ(StatusOfPost("/api/gpupool.v1.JobService/None", Token()), 403);
  EXPECT_EQ(StatusOfPost("/api", Token()), 403);
}

TEST_F(RouteAccessTest, ProbesAndThePageAreOpen) {
  // The fake server has no inference service, so the probe itself fails.
  EXPECT_EQ(NewClient().Get("/v2/health/live")->status, 501);
  EXPECT_EQ(NewClient().Get("/")->status, 200);
  EXPECT_EQ(NewClient().Get("/web/main.js")->status, 200);
  EXPECT_EQ(NewClient().Get("/v2")->status, 401);
  EXPECT_EQ(NewClient().Get("/api")->status, 401);
  EXPECT_EQ(NewClient().Head("/v2/models/m")->status, 401);
}

// Returns the answer to a request over a connection, which it closes.
std::string AnswerOver(int connection, const std::string& request) {
  EXPECT_EQ(write(connection, request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char part[4096];
  for (ssize_t n = 0; (n = read(connection, part, sizeof(part))) > 0;) {
    answer.append(part, static_cast<size_t>(n));
  }
  close(connection);
  return answer;
}

std::string PostOf(const std::string& path, const std::string& header = "") {
  return "POST " + path +
         " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
         "Content-Type: application/json\r\nContent-Length: 2\r\n" +
         header + "\r\n{}";
}

class OwnUsersTest : public RouteAccessTest {
 protected:
  OwnUsersTest() : RouteAccessTest(FreeCallers::kOwnUsers) {}
};

TEST_F(OwnUsersTest, TheServersUserNeedsNoToken) {
  const auto answer = NewClient().Post(kListJobs, "{}", "application/json");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(StatusOfPost("/api/gpupool.v1.JobService/None", {}), 404);
  EXPECT_EQ(StatusOfPost(kListJobs, {{"Authorization", "Basic YTpi"}}), 200);
  EXPECT_EQ(StatusOfPost(kListJobs, {{"Authorization", ""}}), 401);
}

TEST_F(OwnUsersTest, AnotherUserNeedsATokenAndIsNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can call as another user";
  const auto ask = [&](const std::string& request) {
    return AnswerOver(ConnectAs(kNobody, "127.0.0.1", http_->port()), request);
  };
  for (const char* path : {kListJobs, "/api/gpupool.v1.AdminService/Drain",
                           "/v2/models/m/infer", "/v2/repository/index"}) {
    const std::string denied = ask(PostOf(path));
    EXPECT_EQ(denied.find("HTTP/1.1 401"), 0u) << path << denied;
    EXPECT_NE(denied.find("uid 65534"), std::string::npos) << denied;
  }
  EXPECT_EQ(ask(PostOf(kListJobs, "Authorization: Bearer " + secret_ + "\r\n"))
                .find("HTTP/1.1 200"),
            0u);
  EXPECT_EQ(ask("GET / HTTP/1.0\r\n\r\n").find("HTTP/1.1 200"), 0u);
}

TEST(GuardOfTest, WithoutTokensThereIsNoGuard) {
  AccessGate gate(FreeCallers::kAll, absl::Now);
  EXPECT_EQ(GuardOf(nullptr), nullptr);
  EXPECT_EQ(GuardOf(&gate), nullptr);
}

}  // namespace
}  // namespace gpupool::server
