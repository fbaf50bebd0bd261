#include "server/metrics/metrics_endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

std::string Get(uint16_t port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t n = read(fd, bytes, sizeof(bytes)); n > 0;
       n = read(fd, bytes, sizeof(bytes))) {
    answer.append(bytes, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

TEST(MetricsEndpointTest, ServesWhatTheMetricsHold) {
  Metrics metrics;
  metrics.Set(GaugeName::kBuildInfo, {"0.1.0", ""}, 1);
  const auto endpoint = MetricsEndpoint::Start("127.0.0.1", 0, metrics);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  ASSERT_NE((*endpoint)->port(), 0);
  const std::string answer = Get((*endpoint)->port(), "/metrics");
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_THAT(answer, HasSubstr("gpupool_build_info{"));
}

TEST(MetricsEndpointTest, ServesTritonsNamesOfWhatWasCounted) {
  Metrics metrics;
  const auto endpoint = MetricsEndpoint::Start("127.0.0.1", 0, metrics);
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  const auto version = metrics.ForVersion("digits", "3", 64);
  version->CountRequest(absl::StatusCode::kOk);
  version->CountRequest(absl::StatusCode::kDeadlineExceeded);
  version->Count(CounterName::kTritonQueueTime, 1250);
  const std::string answer = Get((*endpoint)->port(), "/metrics");
  for (const char* line :
       {"# TYPE nv_inference_request_success counter",
        "nv_inference_request_success{model=\"digits\",version=\"3\"} 1",
        "nv_inference_request_failure{model=\"digits\",reason=\"REJECTED\","
        "version=\"3\"} 1",
        "nv_inference_queue_duration_us{model=\"digits\",version=\"3\"} 1250",
        "# TYPE nv_inference_pending_request_count gauge"}) {
    EXPECT_THAT(answer, HasSubstr(line));
  }
}

TEST(MetricsEndpointTest, TakenPortIsUnavailableAndNamed) {
  Metrics metrics;
  const auto first = MetricsEndpoint::Start("127.0.0.1", 0, metrics);
  ASSERT_TRUE(first.ok());
  const auto second =
      MetricsEndpoint::Start("127.0.0.1", (*first)->port(), metrics);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(std::to_string((*first)->port())));
}

}  // namespace
}  // namespace gpupool::server
