#include "client/cli/mlflow/tracking_server.h"

#include <gmock/gmock.h>

#include "tests/client/testing/fake_tracking.h"
#include "tests/wait_until.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

class TrackingServerTest : public ::testing::Test {
 protected:
  static TrackingServer::Options OptionsFor(const std::string& url) {
    const auto parsed = ParseTrackingUrl(url);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return {.url = parsed.value_or(TrackingUrl()), .timeout = kPatience};
  }

  FakeTracking fake_;
};

TEST_F(TrackingServerTest, PostsJsonBelowThePrefix) {
  fake_.Give("runs/create", {.body = R"({"run": 1})"});
  TrackingServer server(OptionsFor(fake_.url() + "/team/"));
  const auto answer = server.Post("runs/create", {{"run_name", "\xC3\xA9"}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ((*answer)["run"], 1);
  const auto received = fake_.Of("runs/create");
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].method, "POST");
  EXPECT_EQ(received[0].target, "/team/api/2.0/mlflow/runs/create");
  EXPECT_EQ(received[0].body, (nlohmann::json{{"run_name", "\xC3\xA9"}}));
  EXPECT_EQ(received[0].authorization, "");
}

TEST_F(TrackingServerTest, GetsWithAQueryThatStaysAsItIs) {
  fake_.Give("runs/get", {});
  TrackingServer server(OptionsFor(fake_.url()));
  ASSERT_TRUE(server.Get("runs/get", "run_id=a%20b%2B").ok());
  EXPECT_EQ(fake_.Of("runs/get")[0].method, "GET");
  EXPECT_EQ(fake_.Of("runs/get")[0].target,
            "/api/2.0/mlflow/runs/get?run_id=a%20b%2B");
}

TEST_F(TrackingServerTest, SendsTheCredentials) {
  fake_.Give("runs/create", {});
  TrackingServer::Options options = OptionsFor(fake_.url());
  options.credentials.authorization = "Bearer abc";
  TrackingServer server(std::move(options));
  ASSERT_TRUE(server.Post("runs/create", {{"a", 1}}).ok());
  EXPECT_EQ(fake_.Of("runs/create")[0].authorization, "Bearer abc");
}

TEST_F(TrackingServerTest, RefusalsAreErrors) {
  fake_.Give("runs/create",
             {.status = 400,
              .body = R"({"error_code": "INVALID_STATE", "message": "no"})"});
  fake_.Give("runs/get", {.status = 302, .location = "https://there/"});
  TrackingServer server(OptionsFor(fake_.url()));
  EXPECT_EQ(server.Post("runs/create", {{"a", 1}}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(server.Get("runs/get", "").status().message()),
              HasSubstr("redirects to https://there/"));
  EXPECT_THAT(std::string(server.Get("unknown", "").status().message()),
              HasSubstr("no MLflow tracking server at " + fake_.url()));
}

TEST_F(TrackingServerTest, AServerThatIsNotThereIsUnavailable) {
  std::string url;
  {
    FakeTracking gone;
    url = gone.url();
  }
  TrackingServer server(OptionsFor(url));
  const absl::Status status = server.Get("runs/get", "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("cannot reach an MLflow server at " + url + "; check the URL"));
}

TEST_F(TrackingServerTest, AServerThatDoesNotAnswerInTimeIsUnavailable) {
  fake_.Give("runs/get", {.hangs = true});
  TrackingServer::Options options = OptionsFor(fake_.url());
  options.timeout = absl::Milliseconds(200);
  TrackingServer server(std::move(options));
  const absl::Status status = server.Get("runs/get", "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("did not answer within 200ms"));
}

TEST_F(TrackingServerTest, AnAnswerThatIsTooLongIsRefused) {
  fake_.Give("runs/get",
             {.body = std::string(kLongestTrackingAnswer + 1, ' ')});
  TrackingServer server(OptionsFor(fake_.url()));
  EXPECT_EQ(server.Get("runs/get", "").status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(TrackingServerTest, PlainHttpIsNoTls) {
  std::string url = fake_.url();
  url.replace(0, 4, "https");
  TrackingServer server(OptionsFor(url));
  const absl::Status status = server.Get("runs/get", "").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("write http://"));
}

TEST_F(TrackingServerTest, RetriesWhileItIsUnavailable) {
  TrackingServer server(OptionsFor(fake_.url()));
  int calls = 0;
  EXPECT_TRUE(server
                  .Retry(absl::InfiniteDuration(),
                         [&]() -> absl::Status {
                           if (++calls < 3) return absl::UnavailableError("");
                           return absl::OkStatus();
                         })
                  .ok());
  EXPECT_EQ(calls, 3);
}

TEST_F(TrackingServerTest, RetriesAreBoundedAndOnlyForTrouble) {
  TrackingServer server(OptionsFor(fake_.url()));
  int calls = 0;
  const auto fail = [&](absl::Status status) {
    return [&calls, status] {
      ++calls;
      return status;
    };
  };
  EXPECT_EQ(server.Retry(absl::ZeroDuration(), fail(absl::UnavailableError("")))
                .code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(
      server.Retry(absl::InfiniteDuration(), fail(absl::NotFoundError("")))
          .code(),
      absl::StatusCode::kNotFound);
  EXPECT_EQ(calls, 2);
}

TEST_F(TrackingServerTest, AStopEndsTheRetries) {
  std::stop_source stop;
  TrackingServer::Options options = OptionsFor(fake_.url());
  options.stop = stop.get_token();
  TrackingServer server(std::move(options));
  const absl::Status status = server.Retry(absl::InfiniteDuration(), [&] {
    stop.request_stop();
    return absl::UnavailableError("");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace gpupool::client
