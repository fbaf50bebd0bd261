#include "server/server_tracer.h"

#include <gmock/gmock.h>

#include "tests/server/trace/test_collector.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MakeTracerTest, WithoutACollectorThereIsNone) {
  Metrics metrics;
  EXPECT_EQ(MakeTracer(Config(), {}, &metrics), nullptr);
}

TEST(MakeTracerTest, SpansHaveTheNameOfTheServerAndAreCounted) {
  TestCollector collector;
  Metrics metrics;
  Config config;
  config.trace_endpoint = collector.url().Text();
  config.trace_service_name = "pool";
  config.trace_sampling = 1;
  const auto tracer = MakeTracer(config, {"1.2.3", "boot"}, &metrics);
  ASSERT_NE(tracer, nullptr);
  EXPECT_EQ(tracer->sampling(), 1);
  EXPECT_THAT(metrics.Text(),
              AllOf(HasSubstr("gpupool_trace_spans_total{outcome=\"sent\"} 0"),
                    HasSubstr("gpupool_queue_depth{queue=\"traces\"} 0")));
  const auto open = tracer->Begin({});
  ASSERT_TRUE(open.has_value());
  tracer->Add(ServerSpanOf(*open, "rpc", {}, absl::StatusCode::kOk));
  ASSERT_TRUE(collector.Await("rpc").has_value());
  EXPECT_EQ(
      collector.resource().resource().attributes(0).value().string_value(),
      "pool");
  EXPECT_TRUE(WaitUntil([&] {
    return metrics.Text().find(
               "gpupool_trace_spans_total{outcome=\"sent\"} 1") !=
           std::string::npos;
  }));
}

TEST(MakeTracerTest, CountsRequestsBeyondTheLimitOfClients) {
  TestCollector collector;
  Metrics metrics;
  Config config;
  config.trace_endpoint = collector.url().Text();
  const auto tracer = MakeTracer(config, {}, &metrics);
  const TraceHeaders headers = {.parent = kSampledParent};
  ASSERT_TRUE(WaitUntil([&] { return !tracer->Begin(headers).has_value(); }));
  EXPECT_THAT(metrics.Text(),
              HasSubstr("gpupool_trace_requests_limited_total 1"));
}

}  // namespace
}  // namespace gpupool::server
