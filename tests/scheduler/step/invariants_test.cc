#include "scheduler/step/invariants.h"

#include <gmock/gmock.h>

#include "scheduler/state/state_editor.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;

// Each test breaks a valid state in one way and expects an error.
class InvariantsTest : public SchedulerTest {
 protected:
  void SetUp() override {
    device = AddReadyDevice("cpu:0", 100);
    other = AddReadyDevice("cpu:1", 100);
    id = Submit(60);
  }
  std::string Complaint() {
    return std::string(CheckInvariants(state).message());
  }
  Job& broken() { return *edit.FindJob(id); }

  StateEditor edit{state};
  DeviceId device;
  DeviceId other;
  JobId id;
};

TEST_F(InvariantsTest, ASoundStatePasses) { EXPECT_EQ(Complaint(), ""); }

TEST_F(InvariantsTest, CatchesMoreBytesThanTheLimit) {
  Job second;
  second.id = JobId(50);
  second.bytes = 60;
  second.state = JobState::kRunning;
  second.attempt = 1;
  edit.PlaceJob(edit.AddJob(second), {{device}});
  EXPECT_THAT(Complaint(), HasSubstr("120 bytes placed, its limit is 100"));
}

TEST_F(InvariantsTest, CatchesAWrongCountOfJobsOnSeveralDevices) {
  edit.FindDevice(device)->gangs = 1;
  EXPECT_THAT(Complaint(), HasSubstr("cpu:0 counts 1 jobs on several devices, "
                                     "there are 0"));
}

TEST_F(InvariantsTest, CatchesAnExclusiveJobThatSharesItsDevice) {
  Submit(60);
  const JobId beside = Submit(40);
  ASSERT_EQ(DeviceOf(beside), device);
  broken().demands.exclusive = true;
  edit.FindDevice(device)->job_bytes = 140;
  EXPECT_THAT(Complaint(), HasSubstr("job 1 is exclusive and shares cpu:0"));
}

TEST_F(InvariantsTest, CatchesThingsOnADeviceThatTheyDoNotWant) {
  broken().wanted_device = "cpu:1";
  EXPECT_THAT(Complaint(), HasSubstr("job 1 is on cpu:0 and wants cpu:1"));
  broken().wanted_device = "cpu";
  EXPECT_EQ(Complaint(), "");
  const VersionId version = Create("digits", 1, 10);
  Load(version);
  edit.FindVersion(version)->wanted_device = "cuda";
  EXPECT_THAT(Complaint(), HasSubstr("and wants cuda"));
}

TEST_F(InvariantsTest, CatchesOneJobOnTwoDevices) {
  edit.PlaceJob(broken(), {{other}});
  EXPECT_THAT(Complaint(), HasSubstr("lists job 1 that is not there"));
}

TEST_F(InvariantsTest, CatchesALiveJobWithoutADevice) {
  edit.ReleaseJob(broken());
  EXPECT_THAT(Complaint(), HasSubstr("has no device"));
}

TEST_F(InvariantsTest, CatchesAWrongSum) {
  edit.FindDevice(device)->job_bytes += 1;
  EXPECT_THAT(Complaint(), HasSubstr("counts 61 + 0 bytes"));
}

TEST_F(InvariantsTest, CatchesAJobOnADeviceWithoutAWorker) {
  edit.FindDevice(device)->ready = false;
  EXPECT_THAT(Complaint(), HasSubstr("without a worker"));
  EXPECT_TRUE(CheckInvariants(state, /*restoring=*/true).ok());
}

TEST_F(InvariantsTest, CatchesAQueueOutOfLine) {
  broken().state = JobState::kQueued;
  edit.ReleaseJob(broken());
  EXPECT_THAT(Complaint(), HasSubstr("not in the queue"));
}

TEST_F(InvariantsTest, CatchesABackOffThatNeverEnds) {
  edit.ReleaseJob(broken());
  edit.SetJobState(broken(), JobState::kBackingOff);
  EXPECT_THAT(Complaint(), HasSubstr("backs off for ever"));
}

TEST_F(InvariantsTest, CatchesAStrayThatIsAlsoLive) {
  edit.AddStray(*edit.FindDevice(other), AttemptRef{id, 1}, 60);
  EXPECT_THAT(Complaint(), HasSubstr("live and a stray"));
}

TEST_F(InvariantsTest, CatchesTwoRanksOnOneDevice) {
  edit.ReleaseJob(broken());
  broken().device_count = 2;
  edit.PlaceJob(broken(), {{device}, {device}});
  EXPECT_THAT(Complaint(), HasSubstr("2 ranks on 1 devices"));
}

TEST_F(InvariantsTest, CatchesRanksOnDevicesOfTwoKinds) {
  const DeviceId gpu = AddReadyDevice("cuda:0", 100);
  edit.ReleaseJob(broken());
  broken().device_count = 2;
  edit.PlaceJob(broken(), {{device}, {gpu}});
  EXPECT_THAT(Complaint(), HasSubstr("of 2 kinds"));
}

TEST_F(InvariantsTest, CatchesAMissingRank) {
  broken().device_count = 2;
  EXPECT_THAT(Complaint(), HasSubstr("has 1 ranks, it needs 2"));
}

TEST_F(InvariantsTest, CatchesAnAttemptWhoseRanksHaveAllEnded) {
  edit.EndRank(broken(), device, Outcome::kSucceeded);
  EXPECT_THAT(Complaint(), HasSubstr("goes on after its last rank"));
}

TEST_F(InvariantsTest, CatchesAnEndedRankThatStillHoldsItsDevice) {
  broken().ranks[0].end = Outcome::kSucceeded;
  EXPECT_THAT(Complaint(), HasSubstr("not in its device's list"));
}

TEST_F(InvariantsTest, CatchesAReadyVersionWithoutADevice) {
  const VersionId version = Create("digits", 1, 10);
  edit.FindVersion(version)->state = VersionState::kReady;
  EXPECT_THAT(Complaint(), HasSubstr("READY without a device"));
}

TEST_F(InvariantsTest, NoEdgeLeavesAnEndedState) {
  for (int from = 6; from <= 8; ++from) {
    for (int to = 1; to <= 8; ++to) {
      const JobChange change{id, 1, static_cast<JobState>(from),
                             static_cast<JobState>(to), ""};
      EXPECT_FALSE(CheckChange(change).ok()) << from << " -> " << to;
    }
  }
}

}  // namespace
}  // namespace gpupool::scheduler
