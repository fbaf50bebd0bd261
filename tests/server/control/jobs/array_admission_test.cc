#include "server/control/jobs/array_admission.h"

#include <gmock/gmock.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/control/jobs/array_spec.h"
#include "server/control/jobs/job_requests.h"
#include "server/store/store.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class ArrayAdmissionTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
  }
  v1::SubmitJobRequest ArrayRequest(const std::string& request_id,
                                    const std::string& indices,
                                    uint32_t at_once = 0) {
    v1::SubmitJobRequest request = Request(request_id);
    v1::JobSpec& spec = *request.mutable_spec();
    spec.set_name("task-${index}");
    spec.mutable_array()->set_indices(indices);
    spec.mutable_array()->set_max_at_once(at_once);
    (*spec.mutable_array()->mutable_values())["training.seed"].add_values(
        "${index}");
    return request;
  }
  absl::StatusOr<v1::JobArray> SubmitArray(
      const v1::SubmitJobRequest& request) {
    auto tasks = TasksOf(request.spec());
    if (!tasks.ok()) return tasks.status();
    Answer<v1::JobArray> answer;
    server::SubmitArray(control(), {request, *std::move(tasks)},
                        answer.callback());
    return answer.Wait();
  }
  absl::StatusOr<v1::JobArray> Ask(uint64_t id, scheduler::ArrayRequest what) {
    Answer<v1::JobArray> answer;
    AskOfArray(control(), id, what, answer.callback());
    return answer.Wait();
  }
  static std::map<v1::JobState, uint32_t> Counts(const v1::JobArray& array) {
    std::map<v1::JobState, uint32_t> counts;
    for (const auto& count : array.counts()) {
      counts[count.state()] = count.tasks();
    }
    return counts;
  }
  std::map<v1::JobState, uint32_t> CountsOf(uint64_t id) {
    const auto array = store->GetArray(id);
    EXPECT_TRUE(array.ok()) << array.status();
    return array.ok() ? Counts(*array) : std::map<v1::JobState, uint32_t>();
  }
};

TEST_F(ArrayAdmissionTest, MakesAJobOfEachTask) {
  const auto array = SubmitArray(ArrayRequest("r1", "3,5", 1));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->tasks(), 2u);
  v1::ListJobsRequest request;
  request.set_array_id(array->id());
  const auto jobs = ListJobs(control(), request);
  ASSERT_TRUE(jobs.ok());
  ASSERT_THAT(jobs->jobs(), SizeIs(2));
  EXPECT_EQ(jobs->jobs(0).spec().name(), "task-5");
  EXPECT_EQ(jobs->jobs(0).spec().training().seed(), 5u);
  EXPECT_EQ(jobs->jobs(0).array_index(), 5u);
  EXPECT_EQ(jobs->jobs(1).id(), array->id() + 1);
  request.set_array_index(3);
  EXPECT_THAT(ListJobs(control(), request)->jobs(), SizeIs(1));
  v1::ListJobsRequest others;
  others.set_without_tasks(true);
  EXPECT_THAT(ListJobs(control(), others)->jobs(), SizeIs(0));
}

TEST_F(ArrayAdmissionTest, TheSameRequestIsTheSameArrayAlsoAfterARestart) {
  const auto first = SubmitArray(ArrayRequest("r1", "0-3"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(SubmitArray(ArrayRequest("r1", "0-3"))->id(), first->id());
  Restart();
  EXPECT_EQ(SubmitArray(ArrayRequest("r1", "0-3"))->id(), first->id());
  EXPECT_TRUE(
      absl::IsAlreadyExists(SubmitArray(ArrayRequest("r1", "0-4")).status()));
  EXPECT_TRUE(absl::IsAlreadyExists(Submit(Request("r1")).status()));
  ASSERT_TRUE(Submit(Request("r2")).ok());
  EXPECT_TRUE(
      absl::IsAlreadyExists(SubmitArray(ArrayRequest("r2", "0-3")).status()));
}

TEST_F(ArrayAdmissionTest, RefusalsNameWhoHasTheRequestId) {
  const auto array = SubmitArray(ArrayRequest("r1", "0-3"));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(SubmitArray(ArrayRequest("r1", "0-4")).status().message(),
            absl::StrCat("request_id \"r1\" was used for array ", array->id(),
                         " with another spec; use a new request_id for a new "
                         "array"));
  EXPECT_EQ(Submit(Request("r1")).status().message(),
            absl::StrCat("request_id \"r1\" was used for array ", array->id(),
                         "; use a new request_id for a new job"));
  const auto job = Submit(Request("r2"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(SubmitArray(ArrayRequest("r2", "0-3")).status().message(),
            absl::StrCat("request_id \"r2\" was used for job ", job->id(),
                         "; use a new request_id for a new array"));
}

TEST_F(ArrayAdmissionTest, TheLimitHoldsAndIsKnownAfterARestart) {
  Hello("cpu:0");
  const auto array = SubmitArray(ArrayRequest("r1", "0-3", 1));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_TRUE(Eventually([&] { return CountsOf(array->id())[v1::STARTING]; }));
  const uint64_t first = array->id() + 1;
  ReportStarted(first, 1);
  EXPECT_TRUE(Eventually([&] { return CountsOf(array->id())[v1::RUNNING]; }));
  Restart();
  Hello("cpu:0", {{first, 1}});
  ReportEnded(first, 1, worker::v1::JobEnded::SUCCEEDED);
  EXPECT_TRUE(Eventually([&] {
    auto counts = CountsOf(array->id());
    return counts[v1::SUCCEEDED] == 1 && counts[v1::STARTING] == 1 &&
           counts[v1::QUEUED] == 2;
  }));
  const auto waiting = GetJob(control(), array->id() + 4);
  EXPECT_THAT(waiting->waiting_reason(), HasSubstr("max_at_once"));
}

TEST_F(ArrayAdmissionTest, CancelsHoldsAndReleasesAll) {
  const auto array = SubmitArray(ArrayRequest("r1", "0-3", 1));
  ASSERT_TRUE(array.ok()) << array.status();
  ASSERT_TRUE(Ask(array->id(), scheduler::ArrayRequest::kHold).ok());
  EXPECT_TRUE(GetJob(control(), array->id() + 4)->held());
  ASSERT_TRUE(Ask(array->id(), scheduler::ArrayRequest::kRelease).ok());
  EXPECT_FALSE(GetJob(control(), array->id() + 4)->held());
  const auto cancelled = Ask(array->id(), scheduler::ArrayRequest::kCancel);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  EXPECT_EQ(Counts(*cancelled)[v1::CANCELLED], 4u);
  EXPECT_TRUE(Ask(array->id(), scheduler::ArrayRequest::kCancel).ok());
  EXPECT_TRUE(
      absl::IsNotFound(Ask(12345, scheduler::ArrayRequest::kCancel).status()));
}

TEST_F(ArrayAdmissionTest, JobsMayWaitForAnArray) {
  const auto array = SubmitArray(ArrayRequest("r1", "0-1"));
  ASSERT_TRUE(array.ok()) << array.status();
  v1::SubmitJobRequest request = Request("r2");
  request.mutable_spec()->add_after_ok(array->id());
  const auto job = Submit(request);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(Ask(array->id(), scheduler::ArrayRequest::kCancel).ok());
  EXPECT_EQ(GetJob(control(), job->id())->state(), v1::FAILED);
  request.set_request_id("r3");
  EXPECT_THAT(std::string(Submit(request).status().message()),
              HasSubstr("2 tasks have failed or been cancelled"));
  request.mutable_spec()->clear_after_ok();
  request.mutable_spec()->add_after_any(array->id());
  EXPECT_TRUE(Submit(request).ok());
  request.set_request_id("r4");
  request.mutable_spec()->add_after_any(999);
  EXPECT_THAT(std::string(Submit(request).status().message()),
              HasSubstr("there is no job or array 999"));
}

TEST_F(ArrayAdmissionTest, AThousandTasksAreOneCommit) {
  const absl::Time begin = absl::Now();
  const auto array = SubmitArray(ArrayRequest("r1", "0-999", 4));
  ASSERT_TRUE(array.ok()) << array.status();
  std::cout << "acknowledged after " << absl::Now() - begin << "\n";
  Restart();
  EXPECT_EQ(CountsOf(array->id())[v1::QUEUED], 1000u);
}

TEST_F(ArrayAdmissionTest, TasksMayHaveTheirOwnSyntheticRows) {
  std::vector<uint64_t> planned;
  const auto plan = workers->meta;
  workers->meta = [&](const worker::v1::ToWorker& message) {
    if (message.has_plan_training()) {
      planned.push_back(message.plan_training().dataset().rows());
    }
    return plan(message);
  };
  v1::SubmitJobRequest request = ArrayRequest("r1", "0-1");
  request.mutable_spec()->mutable_data()->clear_dataset();
  request.mutable_spec()->mutable_data()->mutable_synthetic()->set_kind(
      v1::SyntheticData::BLOBS);
  v1::TaskValues& rows = (*request.mutable_spec()
                               ->mutable_array()
                               ->mutable_values())["data.synthetic.rows"];
  rows.add_values("100");
  rows.add_values("200");
  const auto array = SubmitArray(request);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(planned, ::testing::UnorderedElementsAre(100, 200));
}

TEST_F(ArrayAdmissionTest, AnUnknownDatasetOfOneTaskRefusesAll) {
  v1::SubmitJobRequest request = ArrayRequest("r1", "0-1");
  v1::TaskValues& names = (*request.mutable_spec()
                                ->mutable_array()
                                ->mutable_values())["data.dataset"];
  names.add_values("digits");
  names.add_values("nothing");
  const auto status = SubmitArray(request).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("task 1: dataset"));
  EXPECT_THAT(ListJobs(control(), {})->jobs(), SizeIs(0));
  EXPECT_THAT(store->ListArrays({})->arrays(), SizeIs(0));
}

}  // namespace
}  // namespace gpupool::server
