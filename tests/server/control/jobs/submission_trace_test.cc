#include "server/control/jobs/submission_trace.h"

#include <gmock/gmock.h>

#include <string>

#include "server/control/jobs/array_admission.h"
#include "server/control/jobs/job_requests.h"
#include "tests/server/control/control_fixture.h"
#include "tests/server/trace/test_collector.h"

namespace gpupool::server {
namespace {

class SubmissionTraceTest : public ControlTest {
 protected:
  void SetUp() override {
    tracer_ = std::make_unique<Tracer>(
        TracerOptions{.exporter = collector_.options()});
    tracer = tracer_.get();
    ControlTest::SetUp();
    AddDataset("digits");
  }
  SubmissionTracePtr Begin(const char* method) {
    return SubmissionTrace::Begin(tracer_.get(), {.parent = kSampledParent},
                                  method);
  }

  TestCollector collector_;
  std::unique_ptr<Tracer> tracer_;
};

TEST_F(SubmissionTraceTest, WithoutATracerOrACallerThereIsNone) {
  EXPECT_EQ(
      SubmissionTrace::Begin(nullptr, {.parent = kSampledParent}, "SubmitJob"),
      nullptr);
  EXPECT_EQ(SubmissionTrace::Begin(tracer_.get(), {}, "SubmitJob"), nullptr);
}

TEST_F(SubmissionTraceTest, ASubmissionThatIsRefusedIsASpan) {
  Begin("SubmitJob")->End(absl::InvalidArgumentError("no name"), 0);
  const auto span = collector_.Await("gpupool.v1.JobService/SubmitJob");
  ASSERT_TRUE(span.has_value());
  EXPECT_EQ(span->attributes(3).key(), "rpc.grpc.status_code");
  EXPECT_EQ(span->attributes(3).value().int_value(), 3);
  EXPECT_EQ(span->status().code(), otlp::v1::SpanStatus::UNSET);
  EXPECT_EQ(span->parent_span_id(), kSampledSpan);
}

TEST_F(SubmissionTraceTest, TheCallbackEndsTheTraceAndAnswers) {
  Answer<v1::Job> answer;
  const SubmissionTracePtr trace = Begin("SubmitJob");
  v1::Job job;
  job.set_id(7);
  EndTraceIn<v1::Job>(trace, answer.callback())(job);
  EXPECT_EQ(answer.Wait()->id(), 7);
  const auto span = collector_.Await("gpupool.v1.JobService/SubmitJob");
  ASSERT_TRUE(span.has_value());
  EXPECT_EQ(span->attributes(4).key(), "gpupool.job.id");
  EXPECT_EQ(span->attributes(4).value().int_value(), 7);
}

TEST_F(SubmissionTraceTest, APlanThatFailsIsASpanWithItsError) {
  Begin("SubmitJob")->Planned(absl::Now(), absl::InternalError("no layers"));
  const auto span = collector_.Await("plan");
  ASSERT_TRUE(span.has_value());
  EXPECT_EQ(span->status().message(), "no layers");
}

TEST_F(SubmissionTraceTest, AllTasksOfAnArrayJoinItsTrace) {
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->mutable_array()->set_indices("0-1");
  auto tasks = TasksOf(request.spec());
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  const SubmissionTracePtr trace = Begin("SubmitArray");
  Answer<v1::JobArray> answer;
  SubmitArray(control(), {request, *std::move(tasks), trace},
              EndTraceIn<v1::JobArray>(trace, answer.callback()));
  const auto array = answer.Wait();
  ASSERT_TRUE(array.ok()) << array.status();
  const auto span = collector_.Await("gpupool.v1.JobService/SubmitArray");
  ASSERT_TRUE(span.has_value());
  const auto jobs = ListJobs(control(), {});
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->jobs_size(), 2);
  for (const v1::Job& job : jobs->jobs()) {
    const auto parent = ReadTraceHeaders({.parent = job.trace_parent()});
    ASSERT_TRUE(parent.has_value());
    EXPECT_EQ(std::string(parent->span.bytes.begin(), parent->span.bytes.end()),
              span->span_id());
  }
}

}  // namespace
}  // namespace gpupool::server
