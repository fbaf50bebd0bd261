#include "server/control/jobs/job_traces.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "server/control/devices/device_requests.h"
#include "server/control/jobs/admission.h"
#include "server/control/jobs/job_requests.h"
#include "tests/server/control/control_fixture.h"
#include "tests/server/trace/test_collector.h"

namespace gpupool::server {
namespace {

using ::testing::UnorderedElementsAre;
using worker::v1::JobEnded;

constexpr char kSubmit[] = "gpupool.v1.JobService/SubmitJob";

class JobTracesTest : public ControlTest {
 protected:
  using Named = std::multimap<std::string, otlp::v1::Span>;

  void SetUp() override {
    tracer_ = std::make_unique<Tracer>(
        TracerOptions{.exporter = collector_.options()});
    tracer = tracer_.get();
    ControlTest::SetUp();
    AddDataset("digits");
    Hello("cpu:0");
  }
  // Submits a job of a traced caller, and takes the StartJob that follows.
  uint64_t StartTraced(const std::string& request_id) {
    const auto trace = SubmissionTrace::Begin(
        tracer_.get(), {.parent = kSampledParent, .state = "a=1"}, "SubmitJob");
    Answer<v1::Job> answer;
    SubmitJob(control(), Request(request_id),
              EndTraceIn<v1::Job>(trace, answer.callback()), trace);
    const auto job = answer.Wait();
    EXPECT_TRUE(job.ok()) << job.status();
    FakeWorkers::Pending post;
    EXPECT_TRUE(workers->NextPost(post));
    return job.ok() ? job->id() : 0;
  }
  // Returns all spans by name, once the whole job is among them.
  Named AwaitJob() {
    EXPECT_TRUE(collector_.Await("job").has_value());
    Named spans;
    for (const otlp::v1::Span& span : collector_.spans()) {
      spans.emplace(span.name(), span);
    }
    return spans;
  }
  static const otlp::v1::Span& Only(const Named& spans,
                                    const std::string& name) {
    EXPECT_EQ(spans.count(name), 1) << name;
    static const auto& none = *new otlp::v1::Span();
    const auto found = spans.find(name);
    return found == spans.end() ? none : found->second;
  }
  // Returns the text of an attribute that the span has.
  static std::string TextOf(const otlp::v1::Span& span,
                            const std::string& key) {
    for (const otlp::v1::KeyValue& attribute : span.attributes()) {
      if (attribute.key() == key) return attribute.value().string_value();
    }
    ADD_FAILURE() << span.name() << " has no " << key;
    return "";
  }
  // Checks that the second span is a child of the first and lies within it.
  static void ExpectChild(const otlp::v1::Span& parent,
                          const otlp::v1::Span& child) {
    EXPECT_EQ(child.trace_id(), parent.trace_id()) << child.name();
    EXPECT_EQ(child.parent_span_id(), parent.span_id()) << child.name();
    EXPECT_GE(child.start_time_unix_nano(), parent.start_time_unix_nano())
        << child.name();
    EXPECT_LE(child.end_time_unix_nano(), parent.end_time_unix_nano())
        << child.name();
  }

  TestCollector collector_;
  std::unique_ptr<Tracer> tracer_;
};

TEST_F(JobTracesTest, AJobIsATreeOfSpans) {
  const uint64_t id = StartTraced("r1");
  ReportStarted(id, 1);
  ReportCheckpoint(id, 1, 20);
  ReportEnded(id, 1, JobEnded::SUCCEEDED);
  const Named spans = AwaitJob();
  const otlp::v1::Span& submit = Only(spans, kSubmit);
  const otlp::v1::Span& job = Only(spans, "job");
  const otlp::v1::Span& attempt = Only(spans, "attempt");
  EXPECT_EQ(submit.parent_span_id(), kSampledSpan);
  ExpectChild(submit, Only(spans, "plan"));
  EXPECT_EQ(job.parent_span_id(), submit.span_id());
  EXPECT_EQ(job.trace_id(), submit.trace_id());
  EXPECT_EQ(job.trace_state(), "a=1");
  ExpectChild(job, Only(spans, "queue"));
  ExpectChild(job, attempt);
  ExpectChild(attempt, Only(spans, "start"));
  ExpectChild(attempt, Only(spans, "checkpoint"));
  EXPECT_EQ(spans.size(), 7);
}

TEST_F(JobTracesTest, AJobWithoutAQueueIsInTheDefaultOne) {
  const uint64_t id = StartTraced("r1");
  ReportStarted(id, 1);
  ReportEnded(id, 1, JobEnded::SUCCEEDED);
  const Named spans = AwaitJob();
  EXPECT_EQ(TextOf(Only(spans, "job"), "gpupool.queue"), "default");
}

TEST_F(JobTracesTest, TheRowKeepsTheSpanOfTheSubmission) {
  const uint64_t id = StartTraced("r1");
  const auto submit = collector_.Await(kSubmit);
  ASSERT_TRUE(submit.has_value());
  const v1::Job job = *GetJob(control(), id);
  EXPECT_EQ(job.trace_state(), "a=1");
  const auto parent = ReadTraceHeaders({.parent = job.trace_parent()});
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(std::string(parent->span.bytes.begin(), parent->span.bytes.end()),
            submit->span_id());
}

TEST_F(JobTracesTest, ARestartLeavesTheTraceWhole) {
  const uint64_t id = StartTraced("r1");
  ReportStarted(id, 1);
  ASSERT_TRUE(workers->WaitAcknowledged("cpu:0", sequence));
  Restart();
  Hello("cpu:0", {{id, 1}});
  ReportCheckpoint(id, 1, 20);
  ReportEnded(id, 1, JobEnded::SUCCEEDED);
  const Named spans = AwaitJob();
  const otlp::v1::Span& job = Only(spans, "job");
  const otlp::v1::Span& attempt = Only(spans, "attempt");
  EXPECT_EQ(job.parent_span_id(), Only(spans, kSubmit).span_id());
  ExpectChild(job, Only(spans, "queue"));
  ExpectChild(job, attempt);
  ExpectChild(attempt, Only(spans, "start"));
  ExpectChild(attempt, Only(spans, "checkpoint"));
  EXPECT_EQ(attempt.start_time_unix_nano(),
            Only(spans, "queue").end_time_unix_nano());
}

TEST_F(JobTracesTest, EachAttemptIsASpan) {
  const uint64_t id = StartTraced("r1");
  ReportStarted(id, 1);
  ReportEnded(id, 1, JobEnded::INTERRUPTED);
  FakeWorkers::Pending again;
  ASSERT_TRUE(workers->NextPost(again));
  ReportStarted(id, 2);
  ReportEnded(id, 2, JobEnded::SUCCEEDED);
  const Named spans = AwaitJob();
  ASSERT_EQ(spans.count("attempt"), 2);
  std::vector<int64_t> numbers;
  const auto [begin, end] = spans.equal_range("attempt");
  for (auto it = begin; it != end; ++it) {
    ExpectChild(Only(spans, "job"), it->second);
    EXPECT_EQ(it->second.attributes(0).key(), "gpupool.attempt");
    numbers.push_back(it->second.attributes(0).value().int_value());
  }
  EXPECT_THAT(numbers, UnorderedElementsAre(1, 2));
}

// The job leaves a device and starts on another one in the same turn.
TEST_F(JobTracesTest, AnAttemptNamesTheDeviceThatItHad) {
  options.devices.push_back({"cpu:1", kLimit, 1});
  Restart();
  Hello("cpu:0");
  const uint64_t id = StartTraced("r1");
  ReportStarted(id, 1);
  Hello("cpu:1");
  Answer<v1::Device> drained;
  SetDrain(control(), "cpu:0", v1::DeviceDrain(), drained.callback());
  ASSERT_TRUE(drained.Wait().ok());
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  ASSERT_TRUE(post.message.has_stop_job());
  ReportEnded(id, 1, JobEnded::STOPPED);
  ASSERT_TRUE(workers->NextPost(post));
  ASSERT_EQ(post.device, "cpu:1");
  worker::v1::Report started;
  started.set_job_id(id);
  started.set_attempt(2);
  started.mutable_started()->set_total_steps(20);
  Report("cpu:1", started);
  EndDetails details;
  details.device = "cpu:1";
  ReportEnded(id, 2, JobEnded::SUCCEEDED, details);
  const Named spans = AwaitJob();
  std::vector<std::string> devices;
  const auto [begin, end] = spans.equal_range("attempt");
  for (auto it = begin; it != end; ++it) {
    ASSERT_EQ(it->second.attributes(1).key(), "gpupool.devices");
    devices.push_back(it->second.attributes(1).value().string_value());
  }
  EXPECT_THAT(devices, UnorderedElementsAre("cpu:0", "cpu:1"));
}

TEST_F(JobTracesTest, AJobThatFailsHasItsError) {
  const uint64_t id = StartTraced("r1");
  ReportStarted(id, 1);
  EndDetails details;
  details.error.set_message("the loss is not finite");
  ReportEnded(id, 1, JobEnded::FAILED, details);
  const Named spans = AwaitJob();
  EXPECT_EQ(Only(spans, "job").status().code(), otlp::v1::SpanStatus::ERROR);
  EXPECT_EQ(Only(spans, "job").status().message(), "the loss is not finite");
}

TEST_F(JobTracesTest, AJobOfAnUntracedCallerHasNoSpans) {
  const v1::Job untraced = FinishedJob("r0", false);
  EXPECT_EQ(untraced.trace_parent(), "");
  const uint64_t id = StartTraced("r1");
  ReportStarted(id, 1);
  ReportEnded(id, 1, JobEnded::SUCCEEDED);
  const Named spans = AwaitJob();
  EXPECT_EQ(Only(spans, "job").attributes(0).value().int_value(),
            static_cast<int64_t>(id));
}

}  // namespace
}  // namespace gpupool::server
