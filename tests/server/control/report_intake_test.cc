#include "server/control/report_intake.h"

#include <gmock/gmock.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpupool/v1/limits.pb.h"
#include "server/control/jobs/job_requests.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;

class ReportIntakeTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
    Hello("cpu:0");
  }

  v1::Job Start(uint32_t kept) {
    v1::SubmitJobRequest request = Request("r1");
    request.mutable_spec()->mutable_publish()->set_on_success(true);
    request.mutable_spec()->mutable_training()->set_keep_best_checkpoints(kept);
    v1::Job job = SubmitAndStart(request);
    ReportStarted(job.id(), 1);
    return job;
  }

  void ReportEvaluated(uint64_t job, uint64_t step,
                       std::optional<double> loss) {
    worker::v1::Report report;
    report.set_job_id(job);
    report.set_attempt(1);
    v1::Checkpoint& checkpoint = *report.mutable_checkpoint();
    checkpoint.set_step(step);
    checkpoint.set_manifest_sha256(std::string(64, 'a'));
    if (loss.has_value()) checkpoint.set_held_out_loss(*loss);
    Report("cpu:0", report);
  }

  void Succeed(uint64_t job) {
    ReportEnded(job, 1, worker::v1::JobEnded::SUCCEEDED);
    ASSERT_TRUE(Becomes(job, v1::SUCCEEDED));
  }

  std::vector<uint64_t> BestSteps(uint64_t job) {
    const v1::Job found = *GetJob(control(), job);
    std::vector<uint64_t> steps;
    for (const v1::Checkpoint& checkpoint : found.best_checkpoints()) {
      steps.push_back(checkpoint.step());
    }
    return steps;
  }

  std::set<uint64_t> StoredSteps(uint64_t job) {
    std::set<uint64_t> steps;
    const auto checkpoints = store->LoadCheckpoints(job);
    EXPECT_TRUE(checkpoints.ok()) << checkpoints.status();
    if (!checkpoints.ok()) return steps;
    for (const v1::Checkpoint& checkpoint : *checkpoints) {
      steps.insert(checkpoint.step());
    }
    return steps;
  }
};

TEST_F(ReportIntakeTest, TheBestCheckpointsAreRankedByTheirLoss) {
  const v1::Job job = Start(2);
  ReportEvaluated(job.id(), 10, 0.5);
  ReportEvaluated(job.id(), 20, 0.3);
  ReportEvaluated(job.id(), 30, std::nullopt);
  ReportEvaluated(job.id(), 40, 0.3);
  ReportEvaluated(job.id(), 50, 0.9);
  Succeed(job.id());
  EXPECT_THAT(BestSteps(job.id()), ElementsAre(20, 40));
}

TEST_F(ReportIntakeTest, TheBestOneIsPublished) {
  const v1::Job job = Start(1);
  ReportEvaluated(job.id(), 10, 0.2);
  ReportEvaluated(job.id(), 20, 0.4);
  Succeed(job.id());
  AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  EXPECT_EQ(store->GetVersion("digits", 0)->step(), 10u);
  EXPECT_EQ(GetJob(control(), job.id())->last_checkpoint().step(), 20u);
}

TEST_F(ReportIntakeTest, WithoutAskingForTheBestTheNewestCounts) {
  const v1::Job job = Start(0);
  ReportEvaluated(job.id(), 10, 0.2);
  ReportEvaluated(job.id(), 20, 0.4);
  Succeed(job.id());
  EXPECT_TRUE(BestSteps(job.id()).empty());
  AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  EXPECT_EQ(store->GetVersion("digits", 0)->step(), 20u);
}

TEST_F(ReportIntakeTest, TheBestOnesAreKeptBesideTheNewest) {
  const v1::Job job = Start(1);
  const uint64_t many = 10 * options.keep_checkpoints;
  ReportEvaluated(job.id(), 1, 0.1);
  for (uint64_t step = 2; step <= many; ++step) {
    ReportEvaluated(job.id(), step, 1);
  }
  Succeed(job.id());
  const std::set<uint64_t> steps = StoredSteps(job.id());
  EXPECT_EQ(steps.size(), options.keep_checkpoints + 1);
  EXPECT_EQ(steps.count(1), 1u);
  EXPECT_EQ(steps.count(many), 1u);
}

class RecordedProfilesTest : public ReportIntakeTest {
 protected:
  void ReportProfile(uint64_t job, uint32_t cycle, uint64_t bytes,
                     uint64_t first_step = 1) {
    worker::v1::Report report;
    report.set_job_id(job);
    report.set_attempt(1);
    report.set_time_unix_nanos(5'000'000'000);
    v1::RecordedProfile& profile = *report.mutable_profile();
    profile.set_cycle(cycle);
    profile.set_first_step(first_step);
    profile.set_bytes(bytes);
    Report("cpu:0", report);
  }
  // Returns the profiles of the job after it has ended.
  std::vector<v1::RecordedProfile> Kept(uint64_t job) {
    Succeed(job);
    const v1::Job found = *GetJob(control(), job);
    return {found.recorded_profiles().begin(), found.recorded_profiles().end()};
  }
};

TEST_F(RecordedProfilesTest, ALaterOneOfACycleReplacesTheEarlierOne) {
  const uint64_t job = Start(0).id();
  ReportProfile(job, 2, 10);
  ReportProfile(job, 1, 10);
  ReportProfile(job, 2, 10, /*first_step=*/17);
  const std::vector<v1::RecordedProfile> kept = Kept(job);
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].cycle(), 1u);
  EXPECT_EQ(kept[1].first_step(), 17u);
  EXPECT_EQ(kept[1].attempt(), 1u);
  EXPECT_EQ(kept[1].time().seconds(), 5);
}

TEST_F(RecordedProfilesTest, TheLongerPartOfADividedCycleStays) {
  const uint64_t job = Start(0).id();
  const auto report = [&](uint32_t cycle, uint64_t first, uint32_t steps) {
    worker::v1::Report part;
    part.set_job_id(job);
    part.set_attempt(1);
    part.mutable_profile()->set_cycle(cycle);
    part.mutable_profile()->set_first_step(first);
    part.mutable_profile()->set_steps(steps);
    Report("cpu:0", part);
  };
  report(1, 11, 9);
  report(1, 20, 1);  // an attempt that goes on
  report(2, 31, 2);
  report(2, 33, 8);
  report(3, 51, 10);
  report(3, 56, 5);  // one that repeats steps
  const std::vector<v1::RecordedProfile> kept = Kept(job);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].first_step(), 11u);
  EXPECT_EQ(kept[1].first_step(), 33u);
  EXPECT_EQ(kept[2].first_step(), 56u);
}

TEST_F(RecordedProfilesTest, TheirNumberIsBounded) {
  const uint64_t job = Start(0).id();
  for (uint32_t cycle = 1; cycle <= 25; ++cycle) ReportProfile(job, cycle, 10);
  const std::vector<v1::RecordedProfile> kept = Kept(job);
  ASSERT_EQ(kept.size(), size_t{v1::MAX_RECORDED_PROFILES});
  EXPECT_EQ(kept.front().cycle(), 6u) << "the earliest are dropped";
}

TEST_F(RecordedProfilesTest, TheirBytesAreBounded) {
  const uint64_t job = Start(0).id();
  const uint64_t third = v1::MAX_RECORDED_PROFILE_BYTES / 3;
  for (uint32_t cycle = 1; cycle <= 5; ++cycle) {
    ReportProfile(job, cycle, third);
  }
  const std::vector<v1::RecordedProfile> kept = Kept(job);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept.front().cycle(), 3u);
}

}  // namespace
}  // namespace gpupool::server
