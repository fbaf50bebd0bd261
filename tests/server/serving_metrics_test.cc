#include "server/serving_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ServingMetricsTest, RequestAndBatchReachTheVersionsSeries) {
  Metrics metrics;
  ServingMetrics observer(&metrics);
  auto version = observer.Observe("digits", 3, 64);
  version->RequestDone({.code = absl::StatusCode::kOk,
                        .rows = 2,
                        .total = absl::Milliseconds(3),
                        .queue = absl::Milliseconds(1),
                        .compute = absl::Milliseconds(1)});
  version->BatchDone({.requests = 1, .rows = 2});
  version->QueueLength(5);
  const std::string text = metrics.Text();
  EXPECT_THAT(text,
              HasSubstr("{code=\"OK\",model=\"digits\",version=\"3\"} 1"));
  EXPECT_THAT(text, HasSubstr("gpupool_inference_batch_size_sum{model="
                              "\"digits\",version=\"3\"} 2"));
  EXPECT_THAT(text, HasSubstr("gpupool_inference_queue_depth{model=\"digits\","
                              "version=\"3\"} 5"));
}

TEST(ServingMetricsTest, StagesThatWereNotReachedAreNotCounted) {
  Metrics metrics;
  ServingMetrics observer(&metrics);
  auto version = observer.Observe("digits", 3, 64);
  version->RequestDone({.code = absl::StatusCode::kInvalidArgument,
                        .total = absl::Milliseconds(1)});
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("duration_seconds_count{model=\"digits\",stage="
                              "\"compute\",version=\"3\"} 0"));
  EXPECT_THAT(text, HasSubstr("duration_seconds_count{model=\"digits\",stage="
                              "\"total\",version=\"3\"} 1"));
}

TEST(ServingMetricsTest, SuccessesAddUpByTritonsNames) {
  Metrics metrics;
  ServingMetrics observer(&metrics);
  auto version = observer.Observe("digits", 3, 64);
  const RequestSample sample{.code = absl::StatusCode::kOk,
                             .rows = 2,
                             .total = absl::Microseconds(100),
                             .queue = absl::Microseconds(40),
                             .copy_in = absl::Microseconds(10),
                             .compute = absl::Nanoseconds(30500),
                             .copy_out = absl::Nanoseconds(19500)};
  version->RequestDone(sample);
  version->RequestDone(sample);
  version->BatchDone({.requests = 2, .rows = 4});
  version->QueueLength(5);
  const std::string text = metrics.Text();
  const std::pair<const char*, const char*> lines[] = {
      {"request_success", "2"},
      {"count", "4"},
      {"exec_count", "1"},
      {"pending_request_count", "5"},
      {"request_duration_us", "200"},
      {"queue_duration_us", "80"},
      {"compute_input_duration_us", "20"},
      {"compute_infer_duration_us", "61"},
      {"compute_output_duration_us", "39"}};
  for (const auto& [name, value] : lines) {
    EXPECT_THAT(text,
                HasSubstr(std::string("\nnv_inference_") + name +
                          "{model=\"digits\",version=\"3\"} " + value + "\n"));
  }
}

TEST(ServingMetricsTest, FailuresAddNoTimesByTritonsNames) {
  Metrics metrics;
  ServingMetrics observer(&metrics);
  auto version = observer.Observe("digits", 3, 64);
  version->RequestDone({.code = absl::StatusCode::kDeadlineExceeded,
                        .rows = 2,
                        .total = absl::Milliseconds(1),
                        .queue = absl::Milliseconds(1)});
  version->BatchDone({.code = absl::StatusCode::kInternal, .requests = 1});
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("reason=\"REJECTED\",version=\"3\"} 1"));
  for (const char* name : {"request_success", "count", "exec_count",
                           "request_duration_us", "queue_duration_us"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\nnv_inference_") + name +
                                "{model=\"digits\",version=\"3\"} 0\n"));
  }
}

TEST(ServingMetricsTest, UnroutedRequestGetsNoSeriesOfItsName) {
  Metrics metrics;
  ServingMetrics observer(&metrics);
  observer.RequestUnrouted(absl::StatusCode::kNotFound);
  EXPECT_THAT(metrics.Text(), HasSubstr("code=\"NOT_FOUND\",model=\"\""));
}

}  // namespace
}  // namespace gpupool::server
