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

TEST(ServingMetricsTest, SequencesAreGauges) {
  Metrics metrics;
  ServingMetrics observer(&metrics);
  auto version = observer.Observe("sum", 3, 64);
  version->Sequences({.active = 5, .waiting = 7});
  version->Sequences({.active = 4, .waiting = 6});
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("\ngpupool_inference_sequences{model=\"sum\","
                              "version=\"3\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("\ngpupool_inference_sequence_requests_waiting{"
                              "model=\"sum\",version=\"3\"} 6\n"));
}

TEST(ServingMetricsTest, HitsAndMissesOfTheCacheAddUp) {
  Metrics metrics;
  ServingMetrics observer(&metrics);
  auto version = observer.Observe("digits", 3, 64);
  version->RequestDone({.code = absl::StatusCode::kOk,
                        .rows = 2,
                        .total = absl::Microseconds(100),
                        .queue = absl::Microseconds(40),
                        .compute = absl::Microseconds(60)});
  version->CacheDone({.hit = false, .time = absl::Microseconds(7)});
  version->CacheDone({.hit = true, .time = absl::Microseconds(5)});
  version->CacheDone({.hit = true, .time = absl::Microseconds(6)});
  const std::string text = metrics.Text();
  const std::pair<const char*, const char*> lines[] = {
      {"gpupool_inference_cache_hits_total", "2"},
      {"gpupool_inference_cache_misses_total", "1"},
      {"nv_cache_num_hits_per_model", "2"},
      {"nv_cache_num_misses_per_model", "1"},
      {"nv_cache_hit_duration_per_model", "11"},
      {"nv_cache_miss_duration_per_model", "7"},
      {"nv_inference_request_success", "3"},
      {"nv_inference_request_duration_us", "118"},
      {"nv_inference_count", "2"},
      {"nv_inference_queue_duration_us", "40"}};
  for (const auto& [name, value] : lines) {
    EXPECT_THAT(text,
                HasSubstr(std::string("\n") + name +
                          "{model=\"digits\",version=\"3\"} " + value + "\n"));
  }
  EXPECT_THAT(text,
              HasSubstr("{code=\"OK\",model=\"digits\",version=\"3\"} 3"));
}

TEST(ServingMetricsTest, TheCacheReportsItsSize) {
  Metrics metrics;
  EXPECT_EQ(MakeResponseCache(0, &metrics), nullptr);
  const auto cache = MakeResponseCache(8000, &metrics);
  for (const char* digest : {"a", "b", "c"}) {
    cache->Insert({.version_id = 1, .digest = digest}, {});
  }
  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr("\ngpupool_response_cache_limit_bytes 8000\n"));
  EXPECT_THAT(text, HasSubstr("\ngpupool_response_cache_answers 3\n"));
  EXPECT_THAT(text, HasSubstr("\ngpupool_response_cache_bytes " +
                              std::to_string(cache->usage().bytes) + "\n"));
  EXPECT_THAT(text, HasSubstr("\ngpupool_response_cache_evictions_total 0\n"));
  for (int i = 0; i < 20; ++i) {
    cache->Insert({.version_id = 2, .digest = std::to_string(i)}, {});
  }
  EXPECT_THAT(metrics.Text(),
              Not(HasSubstr("\ngpupool_response_cache_evictions_total 0\n")));
}

TEST(ServingMetricsTest, UnroutedRequestGetsNoSeriesOfItsName) {
  Metrics metrics;
  ServingMetrics observer(&metrics);
  observer.RequestUnrouted(absl::StatusCode::kNotFound);
  EXPECT_THAT(metrics.Text(), HasSubstr("code=\"NOT_FOUND\",model=\"\""));
}

}  // namespace
}  // namespace gpupool::server
