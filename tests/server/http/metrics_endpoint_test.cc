// The port of the metrics, over real sockets.
#include "server/http/metrics_endpoint.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/request_body.h"
#include "server/metrics/metrics.h"
#include "tests/server/http/port/raw_client.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kScrape[] = "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n";

class MetricsEndpointTest : public ::testing::Test {
 protected:
  MetricsEndpointTest() {
    metrics_.Set(GaugeName::kBuildInfo, {"0.1.0", ""}, 1);
    endpoint_ = *Start(0);
  }

  absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(uint16_t port) {
    return MetricsEndpoint::Start("127.0.0.1", port,
                                  [this] { return metrics_.Text(); });
  }

  RawClient NewClient() const { return RawClient(endpoint_->port()); }

  // Returns the answer of a connection of its own to "GET /metrics", say.
  RawAnswer Ask(const std::string& line, const std::string& headers = "") {
    RawClient client = NewClient();
    client.Send(
        absl::StrCat(line, " HTTP/1.1\r\nHost: h\r\n", headers, "\r\n"));
    return client.ReceiveAnswer();
  }

  Metrics metrics_;
  std::unique_ptr<MetricsEndpoint> endpoint_;
};

TEST_F(MetricsEndpointTest, ServesWhatTheMetricsHold) {
  ASSERT_NE(endpoint_->port(), 0);
  const RawAnswer answer = Ask("GET /metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(
      answer.head,
      AllOf(HasSubstr(
                "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
            Not(HasSubstr("Content-Encoding"))));
  EXPECT_THAT(answer.body, HasSubstr("gpupool_build_info{"));
  EXPECT_EQ(answer.body, metrics_.Text());
}

TEST_F(MetricsEndpointTest, ServesTritonsNamesOfWhatWasCounted) {
  const auto version = metrics_.ForVersion("digits", "3", 64);
  version->CountRequest(absl::StatusCode::kOk);
  version->CountRequest(absl::StatusCode::kDeadlineExceeded);
  version->Count(CounterName::kTritonQueueTime, 1250);
  const std::string text = Ask("GET /metrics").body;
  for (const char* line :
       {"# TYPE nv_inference_request_success counter",
        "nv_inference_request_success{model=\"digits\",version=\"3\"} 1",
        "nv_inference_request_failure{model=\"digits\",reason=\"REJECTED\","
        "version=\"3\"} 1",
        "nv_inference_queue_duration_us{model=\"digits\",version=\"3\"} 1250",
        "# TYPE nv_inference_pending_request_count gauge"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(MetricsEndpointTest, AConnectionCarriesManyScrapes) {
  RawClient client = NewClient();
  for (int i = 0; i < 3; ++i) {
    client.Send(kScrape);
    EXPECT_EQ(client.ReceiveAnswer().body, metrics_.Text());
  }
}

TEST_F(MetricsEndpointTest, TheTextIsInGzipForClientsThatAcceptIt) {
  for (const char* accepted :
       {"gzip", "deflate, GZIP", "br, gzip;q=0.5, *;q=0", "x-gzip"}) {
    const RawAnswer answer = Ask(
        "GET /metrics", absl::StrCat("Accept-Encoding: ", accepted, "\r\n"));
    EXPECT_EQ(answer.status, 200) << accepted;
    EXPECT_THAT(answer.head, HasSubstr("Content-Encoding: gzip\r\n"));
    HttpRequest packed;
    packed.headers = {{"Content-Encoding", "gzip"}};
    packed.body = answer.body;
    const auto text = TakeBody(packed, 1 << 20);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, metrics_.Text());
  }
}

TEST_F(MetricsEndpointTest, TheTextIsPlainForClientsThatDoNotAcceptGzip) {
  for (const char* accepted :
       {"", "identity", "deflate", "gzip;q=0", "gzip; q=0.0, deflate", "gz"}) {
    const RawAnswer answer = Ask(
        "GET /metrics", absl::StrCat("Accept-Encoding: ", accepted, "\r\n"));
    EXPECT_THAT(answer.head, Not(HasSubstr("Content-Encoding"))) << accepted;
    EXPECT_EQ(answer.body, metrics_.Text()) << accepted;
  }
}

TEST_F(MetricsEndpointTest, HeadHasTheHeadersOfGetAndNoBody) {
  RawClient client = NewClient();
  client.Send("HEAD /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.ReceiveAll(),
              AllOf(StartsWith("HTTP/1.1 200 OK"), EndsWith("\r\n\r\n"),
                    HasSubstr(absl::StrCat(
                        "Content-Length: ", metrics_.Text().size(), "\r\n"))));
}

TEST_F(MetricsEndpointTest, NothingElseIsServed) {
  for (const char* line : {"GET /", "GET /metric", "GET /metrics/x", "POST /",
                           "GET /v2/health/live"}) {
    const RawAnswer answer = Ask(line);
    EXPECT_EQ(answer.status, 404) << line;
    EXPECT_THAT(answer.body, HasSubstr("the metrics are at /metrics"));
  }
}

TEST_F(MetricsEndpointTest, TheMetricsAreOnlyRead) {
  const RawAnswer answer = Ask("POST /metrics");
  EXPECT_EQ(answer.status, 405);
  EXPECT_THAT(answer.head, HasSubstr("\r\nAllow: GET, HEAD\r\n"));
}

TEST_F(MetricsEndpointTest, SilentAndHalfSentRequestsDelayNoScrape) {
  std::vector<RawClient> silent;
  std::vector<RawClient> half;
  for (int i = 0; i < 200; ++i) silent.push_back(NewClient());
  for (int i = 0; i < 22; ++i) {
    half.push_back(NewClient());
    half.back().Send("GET /metrics HTTP/1.1\r\nHost: h\r\nX-a:");
  }
  EXPECT_EQ(Ask("GET /metrics").status, 200);
  // This one is still open, so that the scrape did not wait for its end.
  silent.back().Send(kScrape);
  EXPECT_EQ(silent.back().ReceiveAnswer().status, 200);
}

TEST_F(MetricsEndpointTest, TakenPortIsUnavailableAndNamed) {
  const auto second = Start(endpoint_->port());
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(StartsWith("--metrics-port: "),
                    HasSubstr(absl::StrCat("127.0.0.1:", endpoint_->port(),
                                           ": Address already in use"))));
}

}  // namespace
}  // namespace gpupool::server
