// Plans after a restart with another thread count or build.
#include "server/control/jobs/plan_renewal.h"

#include <gmock/gmock.h>

#include <atomic>

#include "server/control/devices/device_requests.h"
#include "server/control/jobs/admission.h"
#include "server/control/jobs/job_requests.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

class PlanRenewalTest : public ControlTest {
 protected:
  void SetUp() override {
    options.planner = 1;
    ControlTest::SetUp();
    Hello("meta");
    AddDataset("digits");
  }

  // Makes the meta worker plan these bytes from now on, and counts plans.
  void PlanFor(uint64_t training, uint64_t inference) {
    workers->meta = [=, this](const worker::v1::ToWorker&)
        -> absl::StatusOr<worker::v1::FromWorker> {
      ++plans;
      worker::v1::FromWorker reply;
      v1::Plan& plan = *reply.mutable_plan()->mutable_plan();
      plan.mutable_training()->set_peak(training);
      plan.mutable_inference()->set_peak(inference);
      return reply;
    };
  }
  void RestartWithPlanner(uint64_t planner) {
    options.planner = planner;
    Restart();
  }
  // Waits until the control thread has done everything that was sent before.
  void Barrier() {
    Answer<v1::Job> answer;
    CancelJob(control(), 999, answer.callback());
    EXPECT_TRUE(absl::IsNotFound(answer.Wait().status()));
  }

  std::atomic<int> plans = 0;
};

TEST_F(PlanRenewalTest, WhatWaitsIsPlannedAgainBeforeItStarts) {
  planned_bytes = 600;
  ASSERT_TRUE(Submit(Request("r1")).ok());
  ASSERT_TRUE(Submit(Request("r2")).ok());
  RestartWithPlanner(2);
  PlanFor(300, 50);
  Hello("cpu:0");
  Barrier();
  EXPECT_EQ(workers->posts(), 0u) << "starts wait for the plans";
  Hello("meta");
  for (uint64_t id : {1, 2}) {
    FakeWorkers::Pending post;
    ASSERT_TRUE(workers->NextPost(post)) << "both fit by their new plans";
    EXPECT_EQ(post.message.start_job().job_id(), id);
    EXPECT_EQ(post.message.start_job().limit_bytes(), 300u);
    EXPECT_EQ(GetJob(control(), id)->plan().training().peak(), 300u);
    EXPECT_EQ(GetJob(control(), id)->memory().planned_peak_bytes(), 300u);
  }
}

TEST_F(PlanRenewalTest, TheSamePlannerPlansNothingAgain) {
  planned_bytes = 600;
  ASSERT_TRUE(Submit(Request("r1")).ok());
  RestartWithPlanner(1);
  PlanFor(300, 50);
  Hello("meta");
  Hello("cpu:0");
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  EXPECT_EQ(post.message.start_job().limit_bytes(), 600u);
  EXPECT_EQ(plans, 0);
}

TEST_F(PlanRenewalTest, WithoutTheMetaWorkerTheOldPlanStays) {
  planned_bytes = 600;
  options.plan_hold = absl::Milliseconds(50);
  ASSERT_TRUE(Submit(Request("r1")).ok());
  RestartWithPlanner(2);
  Hello("cpu:0");
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post)) << "the hold ends by itself";
  EXPECT_EQ(post.message.start_job().limit_bytes(), 600u);
}

TEST_F(PlanRenewalTest, AMetaWorkerThatLeavesIsAskedAgainWhenItComesBack) {
  planned_bytes = 600;
  ASSERT_TRUE(Submit(Request("r1")).ok());
  RestartWithPlanner(2);
  workers->meta = [](const worker::v1::ToWorker&)
      -> absl::StatusOr<worker::v1::FromWorker> {
    return absl::UnavailableError("gone");
  };
  Hello("meta");
  Barrier();
  Barrier();
  EXPECT_EQ(GetJob(control(), 1)->plan().training().peak(), 600u);
  PlanFor(300, 50);
  Hello("meta");
  Hello("cpu:0");
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  EXPECT_TRUE(Eventually(
      [&] { return GetJob(control(), 1)->plan().training().peak() == 300; }));
}

TEST_F(PlanRenewalTest, APlanThatCannotBeMadeLeavesTheOldOneAndTheRest) {
  planned_bytes = 400;
  ASSERT_TRUE(Submit(Request("r1")).ok());
  ASSERT_TRUE(Submit(Request("r2")).ok());
  RestartWithPlanner(2);
  workers->meta = [this](const worker::v1::ToWorker&)
      -> absl::StatusOr<worker::v1::FromWorker> {
    if (++plans == 1) return absl::InvalidArgumentError("no such layer");
    worker::v1::FromWorker reply;
    reply.mutable_plan()->mutable_plan()->mutable_training()->set_peak(300);
    return reply;
  };
  Hello("meta");
  Hello("cpu:0");
  for (uint64_t bytes : {400, 300}) {
    FakeWorkers::Pending post;
    ASSERT_TRUE(workers->NextPost(post));
    EXPECT_EQ(post.message.start_job().limit_bytes(), bytes);
  }
}

TEST_F(PlanRenewalTest, AServedVersionKeepsItsBytesAndGetsItsPlan) {
  Hello("cpu:0");
  FinishedJob("r1", true);
  const uint64_t id = AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  RestartWithPlanner(2);
  PlanFor(300, 70);
  Hello("cpu:0", {}, {id});
  Hello("meta");
  EXPECT_TRUE(Eventually([&] {
    return store->GetVersion("digits", 1)->plan().inference().peak() == 70;
  }));
  EXPECT_EQ(sink->served().at(id), "cpu:0");
  EXPECT_EQ(plans, 1);
  EXPECT_FALSE(store->GetVersion("digits", 1)->plan().has_training());
  EXPECT_EQ(ListDevices(control())[0].committed_bytes(), 50u);
}

}  // namespace
}  // namespace gpupool::server
