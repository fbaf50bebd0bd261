#include "scheduler/state/device_choice.h"

#include <gmock/gmock.h>

#include "scheduler/explain/explain.h"
#include "scheduler/explain/forecast.h"
#include "scheduler/explain/waiting_reason.h"
#include "scheduler/place/placement_policy.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DeviceChoiceTest, ANameHasAColonAndAKindHasNone) {
  EXPECT_TRUE(NamesDevice("cuda:1"));
  EXPECT_FALSE(NamesDevice("cuda"));
  EXPECT_EQ(KindIn("cuda:1"), "cuda");
  EXPECT_EQ(KindIn("cuda"), "cuda");
}

TEST(DeviceChoiceTest, TakesWhatIsNamedTheKindOrAll) {
  EXPECT_TRUE(TakesDevice("cuda:1", "cuda:1", "cuda"));
  EXPECT_FALSE(TakesDevice("cuda:1", "cuda:10", "cuda"));
  EXPECT_TRUE(TakesDevice("cuda", "cuda:1", "cuda"));
  EXPECT_FALSE(TakesDevice("cuda", "cpu:0", "cpu"));
  for (const char* open : {"", "any"}) {
    EXPECT_TRUE(TakesDevice(open, "cpu:0", "cpu"));
    EXPECT_TRUE(TakesKind(open, "cuda"));
  }
  EXPECT_TRUE(TakesKind("cuda:7", "cuda"));
  EXPECT_FALSE(TakesKind("cuda:7", "cpu"));
}

TEST(DeviceChoiceTest, OnlyWhoSaysNothingSparesCpuDevices) {
  EXPECT_TRUE(SparesCpu("", true));
  EXPECT_FALSE(SparesCpu("", false));
  for (const char* said : {"any", "cpu", "cpu:0", "cuda"}) {
    EXPECT_FALSE(SparesCpu(said, true)) << said;
  }
}

class WantedDeviceTest : public SchedulerTest {
 protected:
  JobId SubmitTo(const std::string& wanted, uint64_t bytes = 60) {
    const JobId id(++last_job);
    Send(JobSubmitted{.wanted_device = wanted, .id = id, .bytes = bytes});
    return id;
  }
  const std::string& NameOf(DeviceId id) const {
    return state.devices().at(id).name;
  }
  std::string WhereIs(JobId id) const {
    return job(id).ranks.empty() ? "" : NameOf(DeviceOf(id));
  }
  std::string WhereIs(VersionId id) const {
    return version(id).device ? NameOf(*version(id).device) : "";
  }
};

// Two CPU devices of 100 bytes.
class NamedDeviceTest : public WantedDeviceTest {
 protected:
  NamedDeviceTest() {
    AddReadyDevice("cpu:0", 100);
    second = AddReadyDevice("cpu:1", 100);
  }
  DeviceId second;
};

TEST_F(NamedDeviceTest, JobsQueueForTheirDeviceWhileAnotherIsFree) {
  EXPECT_EQ(WhereIs(SubmitTo("cpu:1", 40)), "cpu:1");
  const JobId beside = SubmitTo("cpu:1", 40);
  EXPECT_EQ(WhereIs(beside), "cpu:1") << "they share it by bytes";
  const JobId waits = SubmitTo("cpu:1", 40);
  EXPECT_EQ(WhereIs(waits), "");
  EXPECT_EQ(WaitingReason(state, job(waits)),
            "waits for cpu:1: it needs 40 B there, 20 B are free; it is next");
  EXPECT_EQ(WhereIs(SubmitTo("", 40)), "cpu:0") << "others pass";
  End(beside, Outcome::kSucceeded);
  EXPECT_EQ(WhereIs(waits), "cpu:1");
}

TEST_F(NamedDeviceTest, TheExplanationLooksAtThatDeviceAlone) {
  const JobId running = SubmitTo("cpu:1");
  SubmitTo("cpu:0");
  const JobId waits = SubmitTo("cpu:1");
  const Explanation why = Explain(state, job(waits), now);
  ASSERT_EQ(why.devices.size(), 1u);
  EXPECT_EQ(why.devices[0].device, second);
  EXPECT_EQ(why.devices[0].missing_bytes, 20u);
  EXPECT_THAT(why.changes, ElementsAre("job 1 ends"));
  EXPECT_EQ(why.running[0].job, running);
}

TEST_F(NamedDeviceTest, ADeviceThatIsAwayIsWaitedFor) {
  Send(WorkerLost{second, "gone"});
  const JobId waits = SubmitTo("cpu:1");
  EXPECT_THAT(WaitingReason(state, job(waits)),
              HasSubstr("waits for cpu:1: its worker is starting"));
  Send(WorkerReady{.device = second});
  EXPECT_EQ(WhereIs(waits), "cpu:1");
}

TEST_F(NamedDeviceTest, OneThatIsTooSmallOrNotThereNeverFits) {
  const Need large{101, "cpu:1"};
  EXPECT_EQ(NeverFitsText(large, Place(state, large)),
            "never fits: needs 101 B, cpu:1 has 100 B");
  const Need unknown{1, "cpu:7"};
  EXPECT_EQ(NeverFitsText(unknown, Place(state, unknown)),
            "never fits: the pool has no device cpu:7 for it");
}

TEST_F(NamedDeviceTest, AStrongerJobTakesThePlaceOnThatDevice) {
  state.SetPolicy({.order = Order::kPriority});
  const JobId elsewhere = SubmitTo("cpu:0");
  const JobId there = SubmitTo("cpu:1");
  Begin(elsewhere);
  Begin(there);
  now += absl::Hours(1);
  const JobId strong(++last_job);
  Send(JobSubmitted{
      .wanted_device = "cpu:1", .id = strong, .priority = 5, .bytes = 60});
  EXPECT_FALSE(job(elsewhere).stop_sent);
  EXPECT_EQ(job(there).stop_sent, StopReason::kPreempted);
  End(there, Outcome::kStopped);
  EXPECT_EQ(WhereIs(strong), "cpu:1");
}

TEST_F(NamedDeviceTest, BackfillReservesThatDevice) {
  state.SetPolicy({.order = Order::kBackfill});
  const auto submit = [&](const std::string& wanted, absl::Duration run) {
    const JobId id(++last_job);
    Send(JobSubmitted{
        .wanted_device = wanted, .id = id, .bytes = 100, .expected_run = run});
    if (IsLive(job(id).state)) Begin(id);
    return id;
  };
  submit("cpu:0", absl::Hours(1));
  const JobId there = submit("cpu:1", absl::Hours(3));
  const JobId first = submit("cpu:1", absl::Hours(1));
  const JobId other = submit("cpu:0", absl::Hours(9));
  End(JobId(1), Outcome::kSucceeded);
  EXPECT_EQ(WhereIs(other), "cpu:0") << "not in the way of the first";
  EXPECT_EQ(WhereIs(first), "");
  End(there, Outcome::kSucceeded);
  EXPECT_EQ(WhereIs(first), "cpu:1");
}

TEST_F(NamedDeviceTest, AForecastKnowsTheDevice) {
  const JobId running = SubmitTo("cpu:1");
  Begin(running);
  Send(ProgressMade{second, {running, 1}, 1, absl::Minutes(5)});
  const Forecast forecast = ForecastSubmission(
      state.Clone(),
      JobSubmitted{.wanted_device = "cpu:1", .id = JobId(9), .bytes = 60}, now,
      100);
  EXPECT_EQ(forecast.start, now + absl::Minutes(5));
  EXPECT_THAT(forecast.devices, ElementsAre(second));
}

TEST_F(NamedDeviceTest, AVersionIsLoadedWhereItIsWanted) {
  const VersionId id = Create("digits", 1, 50);
  Send(VersionLoadRequested{id, "cpu:1"});
  EXPECT_EQ(WhereIs(id), "cpu:1");
  EXPECT_EQ(version(id).wanted_device, "cpu:1");
}

TEST_F(NamedDeviceTest, AVersionWaitsForItsDeviceUntilAnotherIsWanted) {
  const JobId there = SubmitTo("cpu:1");
  const VersionId id = Create("digits", 1, 50);
  Send(VersionLoadRequested{id, "cpu:1"});
  EXPECT_EQ(version(id).error,
            "waits for 50 B on cpu:1; free there is 40 B; unload another "
            "version or wait for a job to end");
  Send(VersionLoadRequested{id});
  EXPECT_EQ(WhereIs(id), "cpu:0");
  EXPECT_EQ(WhereIs(there), "cpu:1");
}

TEST_F(NamedDeviceTest, AVersionThatLostItsWorkerComesBackThere) {
  const VersionId id = Create("digits", 1, 50);
  Send(VersionLoadRequested{id, "cpu:1"});
  Send(VersionLoaded{id, second, version(id).load});
  Send(WorkerLost{second, "gone"});
  EXPECT_EQ(WhereIs(id), "");
  Send(WorkerReady{.device = second});
  EXPECT_EQ(WhereIs(id), "cpu:1");
}

TEST_F(NamedDeviceTest, AVersionThatIsTooLargeForItsDeviceSaysSo) {
  const VersionId id = Create("digits", 1, 101);
  Send(VersionLoadRequested{id, "cpu:1"});
  EXPECT_EQ(version(id).state, VersionState::kLoadFailed);
  EXPECT_EQ(version(id).error, "never fits: needs 101 B, cpu:1 has 100 B");
}

TEST_F(NamedDeviceTest, TrainingMakesRoomOnThatDeviceOnly) {
  state.SetPolicy({.yields_to_serving = true});
  AddReadyDevice("cpu:2", 100);
  for (int i = 0; i < 3; ++i) Begin(SubmitTo("", 80));
  const VersionId id = Create("digits", 1, 50);
  Send(VersionLoadRequested{id, "cpu:1"});
  EXPECT_EQ(version(id).error,
            "waits for 50 B on cpu:1, where training makes room");
  EXPECT_EQ(job(JobId(2)).stop_sent, StopReason::kServing);
  EXPECT_FALSE(job(JobId(1)).stop_sent);
}

// ------------------------------------------------------------ pools of kinds

// A GPU of 100 bytes beside a CPU device of 500.
class MixedPoolTest : public WantedDeviceTest {
 protected:
  MixedPoolTest() {
    AddReadyDevice("cuda:0", 100);
    AddReadyDevice("cpu:0", 500);
  }
};

TEST_F(MixedPoolTest, AJobThatSaysNothingWaitsForTheGpu) {
  const JobId first = SubmitTo("");
  EXPECT_EQ(WhereIs(first), "cuda:0");
  const JobId second = SubmitTo("");
  EXPECT_EQ(WhereIs(second), "");
  EXPECT_EQ(Explain(state, job(second), now).devices.size(), 1u);
  End(first, Outcome::kSucceeded);
  EXPECT_EQ(WhereIs(second), "cuda:0");
}

TEST_F(MixedPoolTest, OneThatAsksForItHasTheCpu) {
  SubmitTo("");
  EXPECT_EQ(WhereIs(SubmitTo("cpu")), "cpu:0");
  EXPECT_EQ(WhereIs(SubmitTo("cpu:0")), "cpu:0");
  EXPECT_EQ(WhereIs(SubmitTo("any")), "cpu:0") << "the GPU is taken";
}

TEST_F(MixedPoolTest, OneThatTakesAnyHasAGpuWhileOneIsFree) {
  for (const PlacementRule rule :
       {PlacementRule::kSpread, PlacementRule::kBestFit,
        PlacementRule::kPack}) {
    state.SetPolicy({.placement = rule});
    const JobId id = SubmitTo("any");
    EXPECT_EQ(WhereIs(id), "cuda:0");
    End(id, Outcome::kSucceeded);
  }
  const VersionId model = Create("digits", 1, 50);
  Send(VersionLoadRequested{model, "any"});
  EXPECT_EQ(WhereIs(model), "cuda:0");
}

// Three GPUs are a larger site than one CPU device, and spreading would take
// the CPU device first.
TEST_F(MixedPoolTest, AnElasticOneThatTakesAnyGrowsOnGpus) {
  AddReadyDevice("cuda:1", 100);
  AddReadyDevice("cuda:2", 100);
  const JobId id(++last_job);
  Send(JobSubmitted{.wanted_device = "any",
                    .device_counts = {1, 2, 4},
                    .id = id,
                    .bytes = 60});
  ASSERT_EQ(job(id).ranks.size(), 2u);
  for (const Rank& rank : job(id).ranks) {
    EXPECT_EQ(state.devices().at(rank.device).kind, "cuda");
  }
}

TEST_F(MixedPoolTest, OneThatIsTooLargeForTheGpuIsToldOfTheCpu) {
  const JobId large = SubmitTo("", 101);
  EXPECT_EQ(WaitingReason(state, job(large)),
            "never fits: needs 101 B, the largest device has 100 B; cpu:0 is "
            "large enough, and CPU devices beside accelerators are for what "
            "asks for them: `device: cpu`");
}

TEST_F(MixedPoolTest, AQueueOfCpuDevicesHasNoOther) {
  state.SetPolicy({.queues = {{.name = "host", .devices = {"cpu"}}}});
  const JobId id(++last_job);
  Send(JobSubmitted{.queue_name = "host", .id = id, .bytes = 60});
  EXPECT_EQ(WhereIs(id), "cpu:0");
}

TEST_F(MixedPoolTest, AModelGoesToTheGpuUnlessTheCpuIsAskedFor) {
  SubmitTo("");
  const VersionId waits = Create("digits", 1, 50);
  Send(VersionLoadRequested{waits});
  EXPECT_EQ(WhereIs(waits), "");
  const VersionId on_cpu = Create("letters", 1, 50);
  Send(VersionLoadRequested{on_cpu, "cpu"});
  EXPECT_EQ(WhereIs(on_cpu), "cpu:0");
}

TEST_F(MixedPoolTest, APoolWithoutAcceleratorsSparesNothing) {
  State cpus;
  cpus.AddDevice("cpu:0", "cpu", 100);
  EXPECT_FALSE(cpus.queues().has_accelerators());
  EXPECT_TRUE(state.queues().has_accelerators());
}

}  // namespace
}  // namespace gpupool::scheduler
