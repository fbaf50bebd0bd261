#include "server/control/jobs/forecast_requests.h"

#include <gmock/gmock.h>

#include "server/control/jobs/admission.h"
#include "server/control/jobs/job_requests.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ForecastRequestsTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
    Hello("cpu:0");
    planned_bytes = 900;  // of 1000: one at a time
  }
  absl::StatusOr<v1::PlanJobResponse> Plan(const v1::JobSpec& spec) {
    Answer<v1::PlanJobResponse> answer;
    v1::PlanJobRequest request;
    *request.mutable_spec() = spec;
    PlanJob(control(), request, AllDatasets(), answer.callback());
    return answer.Wait();
  }
  v1::StartForecast Start() {
    const auto plan = Plan(Request("planned").spec());
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? plan->start() : v1::StartForecast();
  }
  void Run(double seconds) {
    v1::SubmitJobRequest request = Request("r1");
    request.mutable_spec()->set_expected_run_seconds(seconds);
    SubmitAndStart(request);
    ReportStarted(1, 1);
    ASSERT_TRUE(Becomes(1, v1::RUNNING));
  }
};

TEST_F(ForecastRequestsTest, WhereThereIsRoomItWouldStartAtOnce) {
  const v1::StartForecast start = Start();
  EXPECT_TRUE(start.has_time());
  EXPECT_THAT(start.devices(), ElementsAre("cpu:0"));
  EXPECT_EQ(start.waits_for(), "");
  EXPECT_EQ(ListJobs(control(), {})->jobs_size(), 0) << "nothing is stored";
}

TEST_F(ForecastRequestsTest, OtherwiseWhenOthersHaveEnded) {
  Run(1000);
  const v1::StartForecast start = Start();
  EXPECT_GT(start.time().seconds(), absl::ToUnixSeconds(absl::Now()) + 900);
  EXPECT_THAT(start.devices(), ElementsAre("cpu:0"));
  EXPECT_THAT(start.waits_for(), HasSubstr("waits for 900 B on a device"));
}

TEST_F(ForecastRequestsTest, WhatNobodyKnowsIsNotTold) {
  Run(0);
  const v1::StartForecast start = Start();
  EXPECT_FALSE(start.has_time());
  EXPECT_EQ(start.devices_size(), 0);
  EXPECT_EQ(start.why_unknown(), "nobody knows how long job 1 will run");
}

TEST_F(ForecastRequestsTest, JobsToWaitForAreCheckedAsInASubmission) {
  v1::JobSpec spec = Request("planned").spec();
  spec.add_after_ok(7);
  const absl::Status status = Plan(spec).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(status.message(), HasSubstr("there is no job or array 7"));
  Run(0);
  spec.set_after_ok(0, 1);
  const auto plan = Plan(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->start().waits_for(), "waits for job 1 to succeed");
}

TEST_F(ForecastRequestsTest, MoreHostCoresThanTheMachineHasFitNowhere) {
  options.host = {.milli_cores = 2000, .bytes = 0};
  Restart();
  Hello("cpu:0");
  v1::JobSpec spec = Request("planned").spec();
  spec.set_host_cores(2);
  const auto fits = Plan(spec);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_TRUE(fits->devices(0).fits_now());
  spec.set_host_cores(999);
  const auto never = Plan(spec);
  ASSERT_TRUE(never.ok()) << never.status();
  EXPECT_FALSE(never->devices(0).fits_now());
  EXPECT_FALSE(never->devices(0).fits_ever());
  EXPECT_THAT(never->start().why_unknown(),
              HasSubstr("never fits: needs 999 host cores"));
}

}  // namespace
}  // namespace gpupool::server
