#include "server/trace/tracer.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/server/trace/test_collector.h"

namespace gpupool::server {
namespace {

constexpr char kNotSampled[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

class TracerTest : public ::testing::Test {
 protected:
  TracerOptions Options(double sampling) {
    return {.sampling = sampling, .exporter = collector_.options()};
  }

  TestCollector collector_;
};

TEST_F(TracerTest, ARequestOfATracedCallerJoinsItsTrace) {
  Tracer tracer(Options(0));
  const auto open = tracer.Begin({.parent = kSampledParent, .state = "a=1"});
  ASSERT_TRUE(open.has_value());
  EXPECT_EQ(TraceParentOf({open->trace, open->parent, true, ""}),
            kSampledParent);
  EXPECT_TRUE(IsSet(open->id));
  EXPECT_NE(open->id, open->parent);
  EXPECT_EQ(open->state, "a=1");
}

TEST_F(TracerTest, ARequestOfAnUntracedCallerIsNotTraced) {
  Tracer tracer(Options(1));
  EXPECT_FALSE(tracer.Begin({.parent = kNotSampled}).has_value());
}

TEST_F(TracerTest, WithoutACallerTheShareDecides) {
  Tracer none(Options(0));
  EXPECT_FALSE(none.Begin({}).has_value());
  Tracer all(Options(1));
  const auto first = all.Begin({});
  const auto second = all.Begin({.parent = "malformed"});
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(IsSet(first->trace));
  EXPECT_NE(first->trace, second->trace);
  EXPECT_FALSE(IsSet(first->parent));
}

TEST_F(TracerTest, TheShareCanBeChanged) {
  Tracer tracer(Options(0));
  tracer.SetSampling(1);
  EXPECT_EQ(tracer.sampling(), 1);
  EXPECT_TRUE(tracer.Begin({}).has_value());
}

TEST_F(TracerTest, TracesOnlySoManyRequestsBecauseTheirClientsAsk) {
  TracerOptions options = Options(0);
  options.client_rate = 1;
  int limited = 0;
  options.limited = [&] { ++limited; };
  Tracer tracer(std::move(options));
  int traced = 0;
  for (int i = 0; i < 1000; ++i) {
    traced += tracer.Begin({.parent = kSampledParent}).has_value();
  }
  EXPECT_GE(traced, 1);
  EXPECT_GE(limited, 1);
  EXPECT_EQ(traced + limited, 1000);
}

TEST_F(TracerTest, SendsSpansAndTheirChildren) {
  Tracer tracer(Options(0));
  const auto open = tracer.Begin({.parent = kSampledParent});
  ASSERT_TRUE(open.has_value());
  const Interval time = {absl::FromUnixSeconds(1), absl::FromUnixSeconds(2)};
  tracer.Add({ServerSpanOf(*open, "rpc", time, absl::StatusCode::kOk),
              ChildOf(*open, tracer.NewSpan(), "stage", time)});
  const auto root = collector_.Await("rpc");
  const auto child = collector_.Await("stage");
  ASSERT_TRUE(root.has_value());
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(root->kind(), otlp::v1::Span::SERVER);
  EXPECT_EQ(child->kind(), otlp::v1::Span::INTERNAL);
  EXPECT_EQ(child->trace_id(), root->trace_id());
  EXPECT_EQ(child->parent_span_id(), root->span_id());
  EXPECT_EQ(root->parent_span_id().size(), 8);
}

TEST(ServerSpanTest, AMistakeOfTheClientIsNoFailure) {
  const auto failed = [](absl::StatusCode code) {
    return ServerSpanOf({}, "service/Method", {}, code).failed;
  };
  EXPECT_FALSE(failed(absl::StatusCode::kOk));
  EXPECT_FALSE(failed(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE(failed(absl::StatusCode::kNotFound));
  EXPECT_TRUE(failed(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(failed(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace gpupool::server
