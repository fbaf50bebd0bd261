// Predicted starts as clients see them.
#include "server/control/jobs/forecaster.h"

#include <gmock/gmock.h>

#include "server/control/jobs/job_requests.h"
#include "server/control/records/rows.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

class ForecasterTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
    Hello("cpu:0");
    planned_bytes = 900;  // of 1000: one at a time
  }
  v1::SubmitJobRequest RequestFor(const std::string& id, double seconds) {
    v1::SubmitJobRequest request = Request(id);
    request.mutable_spec()->set_expected_run_seconds(seconds);
    return request;
  }
};

TEST_F(ForecasterTest, AJobThatWaitsGetsItsPredictedStart) {
  SubmitAndStart(RequestFor("r1", 1000));
  ReportStarted(1, 1);
  ASSERT_TRUE(Becomes(1, v1::RUNNING));
  ASSERT_TRUE(Submit(RequestFor("r2", 10)).ok());
  ASSERT_TRUE(Eventually(
      [&] { return GetJob(control(), 2)->has_predicted_start_time(); }));
  const v1::Job first = *GetJob(control(), 1);
  const absl::Duration ahead =
      FromTimestamp(GetJob(control(), 2)->predicted_start_time()) -
      FromTimestamp(first.start_time());
  EXPECT_GT(ahead, absl::Seconds(990));
  EXPECT_LT(ahead, absl::Seconds(1100));
  EXPECT_FALSE(first.has_predicted_start_time()) << "it started at once";
  Restart();
  EXPECT_TRUE(GetJob(control(), 2)->has_predicted_start_time())
      << "it is on disk";
}

TEST_F(ForecasterTest, WhereNobodyKnowsThereIsNone) {
  SubmitAndStart(Request("r1"));
  ReportStarted(1, 1);
  ASSERT_TRUE(Becomes(1, v1::RUNNING));
  ASSERT_TRUE(Submit(Request("r2")).ok());
  ReportEnded(1, 1, worker::v1::JobEnded::SUCCEEDED);
  ASSERT_TRUE(Becomes(2, v1::STARTING));
  EXPECT_FALSE(GetJob(control(), 2)->has_predicted_start_time());
}

// Rehearsals of this fixture never end.
class UntriedForecasterTest : public ForecasterTest {
 protected:
  void SetUp() override {
    rehearsal = [](const worker::v1::ToWorker&)
        -> absl::StatusOr<worker::v1::FromWorker> {
      return absl::UnavailableError("ended during the request");
    };
    ForecasterTest::SetUp();
  }
};

TEST_F(UntriedForecasterTest, AJobThatWaitsForItsRehearsalOnlyHasNone) {
  ASSERT_TRUE(Submit(RequestFor("r1", 1000)).ok());
  ASSERT_TRUE(Submit(RequestFor("r2", 10)).ok());
  // The forecast of the first job is stored before, or together with, that of
  // the second one.
  ASSERT_TRUE(Eventually(
      [&] { return GetJob(control(), 2)->has_predicted_start_time(); }));
  EXPECT_FALSE(GetJob(control(), 1)->has_predicted_start_time());
}

TEST(ForecasterQueueTest, LooksAreBoundedAndEachIsAnsweredOnce) {
  Forecaster forecaster;
  int stopped = 0;
  for (size_t i = 0; i < Forecaster::kMostWaiting; ++i) {
    EXPECT_TRUE(forecaster.Ask([&](bool stop) { stopped += stop ? 1 : 0; }));
  }
  EXPECT_FALSE(forecaster.Ask([](bool) { FAIL(); }));
  forecaster.Stop();
  EXPECT_EQ(stopped, static_cast<int>(Forecaster::kMostWaiting));
  EXPECT_FALSE(forecaster.Ask([](bool) { FAIL(); }));
}

}  // namespace
}  // namespace gpupool::server
