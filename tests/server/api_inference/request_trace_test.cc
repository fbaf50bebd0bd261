#include "server/api/inference/request_trace.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "tests/server/api_inference/inference_server.h"
#include "tests/server/trace/test_collector.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

std::string TextOf(const otlp::v1::Span& span, const std::string& key) {
  for (const auto& attribute : span.attributes()) {
    if (attribute.key() == key) return attribute.value().string_value();
  }
  return "(none)";
}

int64_t NumberOf(const otlp::v1::Span& span, const std::string& key) {
  for (const auto& attribute : span.attributes()) {
    if (attribute.key() == key) return attribute.value().int_value();
  }
  return -1;
}

class RequestTraceTest : public ::testing::Test {
 protected:
  grpc::Status Infer(const inference::ModelInferRequest& request,
                     const char* trace_parent) {
    grpc::ClientContext context;
    if (trace_parent != nullptr) {
      context.AddMetadata("traceparent", trace_parent);
      context.AddMetadata("tracestate", "a=1");
    }
    inference::ModelInferResponse response;
    return server_.stub->ModelInfer(&context, request, &response);
  }
  // Returns the spans once there are so many.
  std::vector<otlp::v1::Span> AwaitSpans(size_t count) {
    EXPECT_TRUE(WaitUntil([&] { return collector_.spans().size() >= count; }));
    return collector_.spans();
  }

  TestCollector collector_;
  Tracer tracer_{TracerOptions{.exporter = collector_.options()}};
  InferenceServer server_{1 << 20, &tracer_};
};

TEST_F(RequestTraceTest, ARequestAndItsStagesAreSpans) {
  auto request = RawRequest({1, 2, 3, 4});
  request.set_id("r-7");
  ASSERT_TRUE(Infer(request, kSampledParent).ok());
  const auto spans = AwaitSpans(6);
  const otlp::v1::Span& root = spans[0];
  EXPECT_EQ(root.name(), kInferSpan);
  EXPECT_EQ(root.kind(), otlp::v1::Span::SERVER);
  EXPECT_EQ(root.trace_state(), "a=1");
  EXPECT_EQ(root.parent_span_id(), kSampledSpan);
  EXPECT_EQ(TextOf(root, "rpc.system"), "grpc");
  EXPECT_EQ(TextOf(root, "rpc.service"), "inference.GRPCInferenceService");
  EXPECT_EQ(TextOf(root, "rpc.method"), "ModelInfer");
  EXPECT_EQ(NumberOf(root, "rpc.grpc.status_code"), 0);
  EXPECT_EQ(TextOf(root, "gpupool.model"), "digits");
  EXPECT_EQ(NumberOf(root, "gpupool.version"), 1);
  EXPECT_EQ(TextOf(root, "gpupool.device"), "cpu:0");
  EXPECT_EQ(TextOf(root, "gpupool.request.id"), "r-7");
  EXPECT_EQ(NumberOf(root, "gpupool.rows"), 2);
  EXPECT_EQ(NumberOf(root, "gpupool.batch.rows"), 2);
  EXPECT_EQ(NumberOf(root, "gpupool.batch.requests"), 1);
  EXPECT_EQ(root.status().code(), otlp::v1::SpanStatus::UNSET);
}

TEST_F(RequestTraceTest, StagesFollowEachOtherWithinTheRequest) {
  ASSERT_TRUE(Infer(RawRequest({1, 2}), kSampledParent).ok());
  const auto spans = AwaitSpans(6);
  const otlp::v1::Span& root = spans[0];
  std::vector<std::string> names;
  uint64_t last_end = root.start_time_unix_nano();
  for (size_t i = 1; i < spans.size(); ++i) {
    const otlp::v1::Span& stage = spans[i];
    names.push_back(stage.name());
    EXPECT_EQ(stage.trace_id(), root.trace_id());
    EXPECT_EQ(stage.parent_span_id(), root.span_id());
    EXPECT_NE(stage.span_id(), root.span_id());
    EXPECT_GE(stage.start_time_unix_nano(), last_end) << stage.name();
    last_end = stage.end_time_unix_nano();
  }
  EXPECT_LE(last_end, root.end_time_unix_nano());
  EXPECT_THAT(names,
              ElementsAre("check", "queue", "copy-in", "compute", "answer"));
}

TEST_F(RequestTraceTest, OnlyRequestsOfTracedCallersAreSpans) {
  ASSERT_TRUE(Infer(RawRequest({1, 2}), nullptr).ok());
  ASSERT_TRUE(Infer(RawRequest({1, 2}),
                    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
                  .ok());
  ASSERT_TRUE(Infer(RawRequest({1, 2}), kSampledParent).ok());
  EXPECT_EQ(AwaitSpans(6).size(), 6);
}

TEST_F(RequestTraceTest, AMistakeOfTheClientEndsInTheCheck) {
  auto request = RawRequest({1, 2});
  request.set_model_name("cats");
  ASSERT_FALSE(Infer(request, kSampledParent).ok());
  const auto spans = AwaitSpans(2);
  EXPECT_EQ(NumberOf(spans[0], "rpc.grpc.status_code"), 5);
  EXPECT_EQ(TextOf(spans[0], "gpupool.model"), "cats");
  EXPECT_EQ(TextOf(spans[0], "gpupool.device"), "(none)");
  EXPECT_EQ(spans[0].status().code(), otlp::v1::SpanStatus::UNSET);
  EXPECT_EQ(spans[1].name(), "check");
}

TEST_F(RequestTraceTest, AnErrorOfTheServerIsOneOfTheSpan) {
  server_.serving.Stop();
  ASSERT_FALSE(Infer(RawRequest({1, 2}), kSampledParent).ok());
  const auto spans = AwaitSpans(2);
  EXPECT_EQ(spans[0].status().code(), otlp::v1::SpanStatus::ERROR);
  EXPECT_THAT(spans[0].status().message(), ::testing::HasSubstr("not ready"));
}

TEST_F(RequestTraceTest, EachRequestOfAStreamIsASpan) {
  grpc::ClientContext context;
  context.AddMetadata("traceparent", kSampledParent);
  auto stream = server_.stub->ModelStreamInfer(&context);
  for (const char* id : {"a", "b"}) {
    auto request = RawRequest({1, 2});
    request.set_id(id);
    stream->Write(request);
  }
  stream->WritesDone();
  inference::ModelStreamInferResponse response;
  while (stream->Read(&response)) EXPECT_EQ(response.error_message(), "");
  ASSERT_TRUE(stream->Finish().ok());
  std::vector<std::string> ids;
  for (const otlp::v1::Span& span : AwaitSpans(12)) {
    if (span.name() != kStreamInferSpan) continue;
    ids.push_back(TextOf(span, "gpupool.request.id"));
    EXPECT_EQ(span.parent_span_id(), kSampledSpan);
  }
  EXPECT_THAT(ids, UnorderedElementsAre("a", "b"));
}

TEST_F(RequestTraceTest, TheStepsOfAnEnsembleAreSpansWithStages) {
  ASSERT_TRUE(server_.serving.ensembles().Define(TwiceSpec()).ok());
  ASSERT_TRUE(Infer(TwiceRequest({1, 2}), kSampledParent).ok());
  const auto spans = AwaitSpans(12);
  EXPECT_EQ(TextOf(spans[0], "gpupool.model"), "twice");
  EXPECT_EQ(TextOf(spans[0], "gpupool.device"), "(none)");
  EXPECT_EQ(spans[1].name(), "check");
  std::vector<std::string> names;
  for (size_t i = 2; i < spans.size(); ++i) {
    names.push_back(spans[i].name());
    const otlp::v1::Span& parent = spans[i < 7 ? 2 : 7];
    if (spans[i].name() == "step") {
      EXPECT_EQ(spans[i].parent_span_id(), spans[0].span_id());
      EXPECT_EQ(TextOf(spans[i], "gpupool.model"), "digits");
      EXPECT_EQ(TextOf(spans[i], "gpupool.device"), "cpu:0");
      EXPECT_EQ(NumberOf(spans[i], "gpupool.batch.rows"), 1);
    } else {
      EXPECT_EQ(spans[i].parent_span_id(), parent.span_id()) << i;
    }
  }
  EXPECT_THAT(names,
              ElementsAre("step", "queue", "copy-in", "compute", "answer",
                          "step", "queue", "copy-in", "compute", "answer"));
}

}  // namespace
}  // namespace gpupool::server
