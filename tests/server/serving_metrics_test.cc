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

TEST(ServingMetricsTest, UnroutedRequestGetsNoSeriesOfItsName) {
  Metrics metrics;
  ServingMetrics observer(&metrics);
  observer.RequestUnrouted(absl::StatusCode::kNotFound);
  EXPECT_THAT(metrics.Text(), HasSubstr("code=\"NOT_FOUND\",model=\"\""));
}

}  // namespace
}  // namespace gpupool::server
