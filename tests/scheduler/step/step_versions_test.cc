#include <gmock/gmock.h>

#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StepVersionsTest : public SchedulerTest {
 protected:
  void SetUp() override { device = AddReadyDevice("cpu:0", 100); }
  StepResult Answer(VersionId id) {
    return Send(VersionLoaded{id, *version(id).device, version(id).load});
  }
  StepResult Fail(VersionId id, absl::Status status) {
    return Send(VersionLoadFailed{id, *version(id).device, version(id).load,
                                  std::move(status)});
  }
  void Wait(absl::Duration time) {
    now += time;
    Send(TimerFired{});
  }
  // The worker ends while it loads or runs the version, and comes back.
  void EndWorkerUnder(VersionId id) {
    const Version before = version(id);
    if (before.load_sent) {
      Fail(id, absl::UnavailableError("the worker is lost"));
    }
    Send(WorkerLost{device, "signal 6", DeviceFault::kNone, {.version = id}});
    Send(WorkerReady{.device = device});
  }
  StepResult Rehearse(VersionId id, absl::Status status) {
    EXPECT_TRUE(version(id).rehearsal_sent);
    return Send(VersionRehearsed{id, version(id).load, std::move(status)});
  }
  VersionState StateOf(VersionId id) { return version(id).state; }
  DeviceId device;
};

TEST_F(StepVersionsTest, ACreatedVersionWaitsToBeAskedFor) {
  const VersionId id = Create("digits", 1, 40);
  EXPECT_EQ(StateOf(id), VersionState::kUnloaded);
}

TEST_F(StepVersionsTest, LoadsThenServesThenDrainsThenUnloads) {
  const VersionId id = Create("digits", 1, 40);
  EXPECT_THAT(ActionsOf<LoadVersion>(Send(VersionLoadRequested{id})),
              SizeIs(1));
  EXPECT_THAT(ActionsOf<ServeVersion>(Answer(id)), SizeIs(1));
  EXPECT_EQ(StateOf(id), VersionState::kReady);
  EXPECT_THAT(ActionsOf<DrainVersion>(Send(VersionUnloadRequested{id})),
              SizeIs(1));
  EXPECT_EQ(state.devices().at(device).committed_bytes(), 40u);
  EXPECT_THAT(ActionsOf<UnloadVersion>(Send(VersionDrained{id})), SizeIs(1));
  Send(VersionUnloaded{id, device});
  EXPECT_EQ(StateOf(id), VersionState::kUnloaded);
  EXPECT_EQ(state.devices().at(device).committed_bytes(), 0u);
}

TEST_F(StepVersionsTest, AVersionThatEndsWorkersIsGivenUp) {
  const VersionId bad = Create("bad", 1, 40);
  const VersionId good = Create("good", 1, 40);
  Load(good);
  Send(VersionLoadRequested{bad});
  EndWorkerUnder(bad);
  EXPECT_EQ(StateOf(bad), VersionState::kLoading);
  EXPECT_THAT(version(bad).error, HasSubstr("is tried alone"));
  EXPECT_EQ(StateOf(good), VersionState::kLoading);
  Answer(good);
  Wait(absl::Minutes(1));
  EXPECT_FALSE(version(bad).device);  // until it was rehearsed
  Rehearse(bad, absl::OkStatus());
  ASSERT_EQ(version(bad).device, device);
  EndWorkerUnder(bad);
  EXPECT_EQ(StateOf(bad), VersionState::kLoadFailed);
  EXPECT_THAT(version(bad).error,
              AllOf(HasSubstr("ended 2 times"), HasSubstr("signal 6"),
                    HasSubstr("`gpupool models load bad/1`")));
  Answer(good);
  EXPECT_EQ(StateOf(good), VersionState::kReady);
  Wait(absl::Hours(2));
  EXPECT_EQ(StateOf(bad), VersionState::kLoadFailed);
  // Somebody asks again: it is tried as if for the first time.
  Load(bad);
  EXPECT_EQ(StateOf(bad), VersionState::kReady);
  EXPECT_EQ(version(bad).worker_ends, 0u);
}

TEST_F(StepVersionsTest, AVersionToRehearseGetsItsPlaceAfterwards) {
  const VersionId id = Create("digits", 1, 40);
  VersionLoadRequested load{id};
  load.rehearse = true;
  EXPECT_THAT(ActionsOf<RehearseVersion>(Send(load)), SizeIs(1));
  EXPECT_FALSE(version(id).device);
  EXPECT_THAT(version(id).error, HasSubstr("is tried alone"));
  EXPECT_THAT(ActionsOf<LoadVersion>(Rehearse(id, absl::OkStatus())),
              SizeIs(1));
  EXPECT_THAT(version(id).error, IsEmpty());
  Answer(id);
  EXPECT_EQ(StateOf(id), VersionState::kReady);

  const VersionId bad = Create("digits", 2, 40);
  load.version = bad;
  Send(load);
  Rehearse(bad, absl::InvalidArgumentError("ended the process"));
  EXPECT_EQ(StateOf(bad), VersionState::kLoadFailed);
  EXPECT_EQ(StateOf(id), VersionState::kReady);
}

TEST_F(StepVersionsTest, ASuspectThatFailsItsRehearsalIsGivenUp) {
  const VersionId bad = Create("bad", 1, 40);
  Send(VersionLoadRequested{bad});
  EndWorkerUnder(bad);
  Rehearse(bad, absl::FailedPreconditionError("ended the process"));
  EXPECT_EQ(StateOf(bad), VersionState::kLoadFailed);
  EXPECT_THAT(version(bad).error,
              AllOf(HasSubstr("ended the process"),
                    HasSubstr("`gpupool models load bad/1`")));
}

TEST_F(StepVersionsTest, ARehearsalThatCannotBeMadeIsAskedForAgain) {
  const VersionId bad = Create("bad", 1, 40);
  Send(VersionLoadRequested{bad});
  EndWorkerUnder(bad);
  const uint64_t first = version(bad).load;
  Rehearse(bad, absl::UnavailableError("the server is starting"));
  EXPECT_EQ(StateOf(bad), VersionState::kLoading);
  EXPECT_FALSE(version(bad).rehearsal_sent);
  Wait(kVersionRetryDelay);
  EXPECT_TRUE(version(bad).rehearsal_sent);
  // The answer to the first one comes late.
  EXPECT_TRUE(Send(VersionRehearsed{bad, first, absl::OkStatus()}).stale);
  Rehearse(bad, absl::OkStatus());
  EXPECT_EQ(version(bad).device, device);
}

TEST_F(StepVersionsTest, ASuspectThatNobodyWantsAnyMoreIsLeftAlone) {
  const VersionId bad = Create("bad", 1, 40);
  Send(VersionLoadRequested{bad});
  EndWorkerUnder(bad);
  Send(VersionUnloadRequested{bad});
  Rehearse(bad, absl::FailedPreconditionError("ended the process"));
  EXPECT_EQ(StateOf(bad), VersionState::kUnloaded);
}

TEST_F(StepVersionsTest, AServedVersionIsGivenUpForEndsThatFollowEachOther) {
  const VersionId id = Create("digits", 1, 40);
  Load(id);
  EndWorkerUnder(id);
  Rehearse(id, absl::OkStatus());
  Answer(id);
  Wait(kFaultMemory + absl::Seconds(1));
  EndWorkerUnder(id);
  EXPECT_EQ(version(id).worker_ends, 1u);
  Rehearse(id, absl::OkStatus());
  Answer(id);
  EndWorkerUnder(id);
  EXPECT_EQ(StateOf(id), VersionState::kLoadFailed);
}

TEST_F(StepVersionsTest, ABrokenDeviceMakesNoVersionSuspect) {
  const VersionId id = Create("digits", 1, 40);
  Load(id);
  Send(WorkerLost{device, "memory", DeviceFault::kSuspect, {.version = id}});
  EXPECT_EQ(version(id).worker_ends, 0u);
}

TEST_F(StepVersionsTest, AnEndUnderAVersionThatNobodyWantsAnyMoreIsCounted) {
  const VersionId id = Create("digits", 1, 40);
  Load(id);
  Send(VersionUnloadRequested{id});
  EndWorkerUnder(id);
  EXPECT_EQ(StateOf(id), VersionState::kUnloaded);
  EXPECT_EQ(version(id).worker_ends, 1u);
}

TEST_F(StepVersionsTest, AVersionThatReplacesNothingStaysBesideTheOlderOne) {
  const VersionId first = Create("digits", 1, 40);
  Load(first);
  const VersionId second(++last_version);
  Send(VersionCreated{.version = second,
                      .model = "digits",
                      .number = 2,
                      .bytes = 40,
                      .replaces_older = false});
  Load(second);
  EXPECT_EQ(StateOf(first), VersionState::kReady);
  EXPECT_EQ(StateOf(second), VersionState::kReady);
}

TEST_F(StepVersionsTest, ANewVersionReplacesTheOlderOneOnceItIsReady) {
  const VersionId old = Create("digits", 1, 40);
  Load(old);
  const VersionId other = Create("faces", 1, 10);
  Load(other);
  const VersionId next = Create("digits", 2, 40);
  Send(VersionLoadRequested{next});
  EXPECT_EQ(StateOf(old), VersionState::kReady);
  const StepResult result = Answer(next);
  ASSERT_THAT(ActionsOf<ServeVersion>(result), SizeIs(1));
  EXPECT_EQ(StateOf(old), VersionState::kUnloading);
  EXPECT_EQ(StateOf(other), VersionState::kReady);
  // New requests must go to the new version before the old one closes.
  EXPECT_TRUE(std::holds_alternative<ServeVersion>(result.actions[0]));
}

TEST_F(StepVersionsTest, AnOlderVersionAskedForAgainIsServedBeside) {
  const VersionId old = Create("digits", 1, 40);
  Load(old);
  const VersionId next = Create("digits", 2, 40);
  Load(next);
  Send(VersionDrained{old});
  Send(VersionUnloaded{old, device});
  Load(old);
  EXPECT_EQ(StateOf(old), VersionState::kReady);
  EXPECT_EQ(StateOf(next), VersionState::kReady);
  // Both are loaded again after a lost worker. Neither displaces the other.
  Send(WorkerLost{device, "gone"});
  Send(WorkerReady{.device = device});
  Answer(old);
  Answer(next);
  EXPECT_EQ(StateOf(old), VersionState::kReady);
  EXPECT_EQ(StateOf(next), VersionState::kReady);
}

TEST_F(StepVersionsTest, AVersionThatDoesNotFitNowWaitsAndSaysWhy) {
  Submit(80);
  const VersionId id = Create("digits", 1, 40);
  Send(VersionLoadRequested{id});
  EXPECT_EQ(StateOf(id), VersionState::kLoading);
  EXPECT_THAT(version(id).error, HasSubstr("waits for 40 B"));
  // The device is held for it, so no other job may start there.
  const JobId late = Submit(10);
  EXPECT_EQ(job(late).state, JobState::kQueued);
  End(JobId(1), Outcome::kSucceeded);
  EXPECT_EQ(version(id).device, device);
  EXPECT_EQ(version(id).error, "");
  EXPECT_EQ(job(late).state, JobState::kStarting);
}

TEST_F(StepVersionsTest, AVersionThatNeverFitsFailsAtOnce) {
  const VersionId id = Create("digits", 1, 101);
  Send(VersionLoadRequested{id});
  EXPECT_EQ(StateOf(id), VersionState::kLoadFailed);
  EXPECT_EQ(version(id).error,
            "never fits: needs 101 B, the largest device has 100 B");
}

TEST_F(StepVersionsTest, AWorkersRefusalIsTheVersionsError) {
  const VersionId id = Create("digits", 1, 40);
  Send(VersionLoadRequested{id});
  Fail(id, absl::DataLossError("weights are damaged"));
  EXPECT_EQ(StateOf(id), VersionState::kLoadFailed);
  EXPECT_EQ(version(id).error, "weights are damaged");
  Send(VersionLoadRequested{id});
  EXPECT_EQ(StateOf(id), VersionState::kLoading);
}

TEST_F(StepVersionsTest, AnUnavailableWorkerIsTriedAgainLater) {
  const VersionId id = Create("digits", 1, 40);
  Send(VersionLoadRequested{id});
  const StepResult result = Fail(id, absl::UnavailableError("reset"));
  EXPECT_EQ(StateOf(id), VersionState::kLoading);
  ASSERT_THAT(ActionsOf<SetTimer>(result), SizeIs(1));
  now += kVersionRetryDelay;
  EXPECT_THAT(ActionsOf<LoadVersion>(Send(TimerFired{})), SizeIs(1));
}

TEST_F(StepVersionsTest, ALoadWithoutAnswerKeepsItsBytesBookedUntilUndone) {
  const VersionId id = Create("digits", 1, 40);
  Send(VersionLoadRequested{id});
  const auto unloads = ActionsOf<UnloadVersion>(
      Fail(id, absl::DeadlineExceededError("no answer in 5 min")));
  EXPECT_THAT(unloads, SizeIs(1));
  EXPECT_EQ(StateOf(id), VersionState::kLoadFailed);
  EXPECT_EQ(state.devices().at(device).committed_bytes(), 40u);
  Send(VersionUnloaded{id, device});
  EXPECT_EQ(state.devices().at(device).committed_bytes(), 0u);
}

TEST_F(StepVersionsTest, AnswersToAnEarlierLoadAreIgnored) {
  const VersionId id = Create("digits", 1, 40);
  Send(VersionLoadRequested{id});
  const uint64_t old_load = version(id).load;
  Send(WorkerLost{device, "gone"});
  Send(WorkerReady{.device = device});
  EXPECT_TRUE(Send(VersionLoaded{id, device, old_load}).stale);
  EXPECT_TRUE(Send(VersionLoadFailed{id, device, old_load,
                                     absl::UnavailableError("reset")})
                  .stale);
  EXPECT_EQ(StateOf(id), VersionState::kLoading);
}

TEST_F(StepVersionsTest, UnloadDuringALoadWaitsForTheAnswer) {
  const VersionId id = Create("digits", 1, 40);
  Send(VersionLoadRequested{id});
  const StepResult unload = Send(VersionUnloadRequested{id});
  EXPECT_THAT(ActionsOf<DrainVersion>(unload), SizeIs(0));
  EXPECT_THAT(ActionsOf<UnloadVersion>(unload), SizeIs(0));
  const StepResult result = Answer(id);
  EXPECT_THAT(ActionsOf<ServeVersion>(result), SizeIs(0));
  EXPECT_THAT(ActionsOf<UnloadVersion>(result), SizeIs(1));
}

TEST_F(StepVersionsTest, AVersionWantedAgainWhileUnloadingIsLoadedAfterwards) {
  const VersionId id = Create("digits", 1, 40);
  Load(id);
  Send(VersionUnloadRequested{id});
  Send(VersionLoadRequested{id});
  Send(VersionDrained{id});
  const StepResult result = Send(VersionUnloaded{id, device});
  EXPECT_THAT(ActionsOf<LoadVersion>(result), SizeIs(1));
}

TEST_F(StepVersionsTest, AVersionWithoutAPlaceUnloadsAtOnce) {
  Submit(80);
  const VersionId id = Create("digits", 1, 40);
  Send(VersionLoadRequested{id});
  Send(VersionUnloadRequested{id});
  EXPECT_EQ(StateOf(id), VersionState::kUnloaded);
}

// Requests wait for its next worker, and its sequences are kept for it.
TEST_F(StepVersionsTest, AnUnloadAfterTheLossOfTheWorkerForgetsTheVersion) {
  const VersionId id = Create("digits", 1, 40);
  Load(id);
  Send(WorkerLost{device, "signal 9"});
  const StepResult result = Send(VersionUnloadRequested{id});
  EXPECT_EQ(StateOf(id), VersionState::kUnloaded);
  const auto forgotten = ActionsOf<ForgetVersion>(result);
  ASSERT_THAT(forgotten, SizeIs(1));
  EXPECT_EQ(forgotten[0].version, id);
}

TEST_F(StepVersionsTest, AnUnloadWhileItIsLoadedAgainForgetsTheVersion) {
  const VersionId id = Create("digits", 1, 40);
  Load(id);
  Send(WorkerLost{device, "signal 9"});
  Send(WorkerReady{.device = device});
  ASSERT_EQ(version(id).device, device);
  EXPECT_THAT(ActionsOf<ForgetVersion>(Send(VersionUnloadRequested{id})),
              SizeIs(1));
  EXPECT_EQ(StateOf(id), VersionState::kUnloading);
  EXPECT_THAT(ActionsOf<UnloadVersion>(Answer(id)), SizeIs(1));
}

TEST_F(StepVersionsTest, AVersionThatFailsToLoadAgainIsForgotten) {
  const VersionId id = Create("digits", 1, 40);
  Load(id);
  Send(WorkerLost{device, "signal 9"});
  Send(WorkerReady{.device = device});
  EXPECT_THAT(
      ActionsOf<ForgetVersion>(Fail(id, absl::UnavailableError("reset"))),
      IsEmpty())
      << "it is tried again";
  now += kVersionRetryDelay;
  Send(TimerFired{});
  EXPECT_THAT(
      ActionsOf<ForgetVersion>(Fail(id, absl::DataLossError("damaged"))),
      SizeIs(1));
  EXPECT_EQ(StateOf(id), VersionState::kLoadFailed);
}

TEST_F(StepVersionsTest, AnUnloadOfAServedVersionOnlyDrainsIt) {
  const VersionId id = Create("digits", 1, 40);
  Load(id);
  EXPECT_THAT(ActionsOf<ForgetVersion>(Send(VersionUnloadRequested{id})),
              IsEmpty());
}

TEST_F(StepVersionsTest, RequestsThatChangeNothingAreStale) {
  const VersionId id = Create("digits", 1, 40);
  EXPECT_TRUE(Send(VersionUnloadRequested{id}).stale);
  Load(id);
  EXPECT_TRUE(Send(VersionLoadRequested{id}).stale);
  EXPECT_TRUE(Send(VersionDrained{id}).stale);
  EXPECT_TRUE(Send(VersionDeleted{id}).stale) << "it is served";
}

TEST_F(StepVersionsTest, DeletesAnUnloadedVersion) {
  const VersionId id = Create("digits", 1, 40);
  Send(VersionDeleted{id});
  EXPECT_EQ(state.FindVersion(id), nullptr);
}

TEST_F(StepVersionsTest, NothingIsLoadedWhileTheServerStops) {
  const VersionId id = Create("digits", 1, 40);
  Send(DrainRequested{.stop = true});
  EXPECT_THAT(Send(VersionLoadRequested{id}).actions, SizeIs(0));
}

}  // namespace
}  // namespace gpupool::scheduler
