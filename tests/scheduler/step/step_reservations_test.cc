#include <gmock/gmock.h>

#include "scheduler/explain/explain.h"
#include "scheduler/explain/forecast.h"
#include "scheduler/explain/waiting_reason.h"
#include "scheduler/order/queue_policy.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class StepReservationsTest : public SchedulerTest {
 protected:
  StepReservationsTest() {
    now = absl::UnixEpoch() + absl::Hours(1);
    Use({.restart_cost = absl::Seconds(60)});
  }
  void Use(const QueuePolicy& policy) { state.SetPolicy(policy); }

  ReservationId Reserve(const std::string& tenant,
                        std::vector<DeviceId> devices, absl::Duration from,
                        absl::Duration length = absl::Hours(1)) {
    const ReservationId id(++last_reservation);
    result = Send(ReservationMade{{.id = id,
                                   .name = absl::StrCat("r", id.value()),
                                   .tenant = tenant,
                                   .devices = std::move(devices),
                                   .start = now + from,
                                   .end = now + from + length}});
    return id;
  }
  JobId SubmitOf(const std::string& tenant, uint64_t bytes = 60,
                 uint32_t devices = 1, JobSubmitted more = {}) {
    more.id = JobId(++last_job);
    more.tenant = tenant;
    more.bytes = bytes;
    more.device_count = devices;
    Send(more);
    return more.id;
  }
  void Pass(absl::Duration time) {
    now += time;
    result = Send(TimerFired{});
  }
  // Stops the job, as its worker does when told to.
  void Stop(JobId id) {
    const Ranks ranks = job(id).ranks;
    for (const Rank& rank : ranks) {
      result = Send(AttemptEnded{
          rank.device, {id, job(id).attempt}, Outcome::kStopped, ""});
    }
  }
  bool Lives(JobId id) const { return IsLive(job(id).state); }
  std::string Why(JobId id) const { return WaitingReason(state, job(id)); }

  uint64_t last_reservation = 0;
  StepResult result;
};

TEST_F(StepReservationsTest, WithinTheWindowOnlyJobsOfTheTenantStart) {
  AddNodes(1, 2);
  Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  const JobId other = SubmitOf("shop");
  const JobId second = SubmitOf("shop");
  EXPECT_EQ(DeviceOf(other), DeviceId(1));
  EXPECT_FALSE(Lives(second));
  EXPECT_THAT(Why(second),
              HasSubstr("device cuda:0 is reserved for lab until 1970-01-01T"));
  const JobId own = SubmitOf("lab.interns");
  EXPECT_EQ(DeviceOf(own), DeviceId(0));
  // The tenant's jobs may run elsewhere, too.
  End(other, Outcome::kSucceeded);
  EXPECT_EQ(DeviceOf(second), DeviceId(1));
}

TEST_F(StepReservationsTest, TheTenantsJobsPreferWhatIsReservedForThem) {
  AddNodes(1, 3);
  Reserve("lab", {DeviceId(2)}, absl::ZeroDuration());
  EXPECT_EQ(DeviceOf(SubmitOf("lab")), DeviceId(2));
  EXPECT_EQ(DeviceOf(SubmitOf("lab")), DeviceId(0));
}

TEST_F(StepReservationsTest, AJobBehindOneOfAnotherTenantIsFound) {
  AddNodes(1, 1);
  Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  // Has the same shape except for its tenant, and is first.
  const JobId first = SubmitOf("shop");
  const JobId own = SubmitOf("lab");
  EXPECT_FALSE(Lives(first));
  EXPECT_TRUE(Lives(own));
}

TEST_F(StepReservationsTest, WhenItBeginsOthersCheckpointAndLeave) {
  AddNodes(1, 2);
  const JobId stays = SubmitOf("lab", 100);
  const JobId leaves = SubmitOf("shop", 100);
  Begin(stays);
  Begin(leaves);
  Reserve("lab", {DeviceId(0), DeviceId(1)}, absl::Seconds(10));
  EXPECT_THAT(
      ActionsOf<SetTimer>(result),
      Contains(::testing::Field(&SetTimer::time, now + absl::Seconds(10))));
  EXPECT_FALSE(job(leaves).stop_sent.has_value());
  Pass(absl::Seconds(10));
  EXPECT_EQ(job(leaves).stop_sent, StopReason::kReserved);
  EXPECT_FALSE(job(stays).stop_sent.has_value());
  ASSERT_EQ(result.preemptions.size(), 1u);
  EXPECT_EQ(result.preemptions[0].reason, PreemptionReason::kReservation);
  EXPECT_EQ(result.preemptions[0].reserved_device, DeviceId(1));
  const uint32_t failures = job(leaves).failures;
  Stop(leaves);
  EXPECT_EQ(job(leaves).state, JobState::kQueued);
  EXPECT_EQ(job(leaves).failures, failures);
  EXPECT_THAT(result.job_changes[0].reason,
              HasSubstr("device cuda:1 is reserved for lab until"));
  EXPECT_THAT(result.job_changes[0].reason, HasSubstr("waits to resume"));
  // Jobs are told once, and the end of the window frees the device.
  Pass(absl::Minutes(1));
  EXPECT_TRUE(result.preemptions.empty());
  Pass(absl::Hours(1));
  EXPECT_TRUE(Lives(leaves));
  EXPECT_TRUE(state.reservations().empty());
}

TEST_F(StepReservationsTest, AMinimumRunOrARankDoesNotKeepAJobThere) {
  Use({.min_run = absl::Hours(10),
       .queues = {{.name = "high", .min_run = absl::Hours(10), .rank = 9}}});
  AddNodes(1, 1);
  JobSubmitted high;
  high.queue_name = "high";
  high.priority = 1000;
  const JobId job_there = SubmitOf("shop", 60, 1, high);
  Begin(job_there);
  Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  EXPECT_EQ(job(job_there).stop_sent, StopReason::kReserved);
}

TEST_F(StepReservationsTest, CancelledItGivesTheDevicesBackAtOnce) {
  AddNodes(1, 1);
  const ReservationId id = Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  const JobId other = SubmitOf("shop");
  EXPECT_FALSE(Lives(other));
  Send(ReservationCancelled{id});
  EXPECT_TRUE(Lives(other));
  EXPECT_TRUE(Send(ReservationCancelled{id}).stale);
}

TEST_F(StepReservationsTest, CancelledWhileAJobIsLeavingItResumes) {
  AddNodes(1, 1);
  const JobId other = SubmitOf("shop");
  Begin(other);
  const ReservationId id = Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  Send(ReservationCancelled{id});
  Stop(other);
  EXPECT_TRUE(Lives(other));
  EXPECT_EQ(job(other).attempt, 2u);
}

TEST_F(StepReservationsTest, BeforeTheStartAJobStartsWhereItCanRunForAWhile) {
  AddNodes(1, 1);
  Reserve("lab", {DeviceId(0)}, absl::Minutes(10));
  const JobId early = SubmitOf("shop");  // has an unknown run time
  EXPECT_TRUE(Lives(early));
  Begin(early);
  End(early, Outcome::kSucceeded);
  Pass(absl::Minutes(9) + absl::Seconds(30));
  const JobId late = SubmitOf("shop");
  EXPECT_FALSE(Lives(late));
  EXPECT_THAT(Why(late), HasSubstr("reserved for lab from 1970-01-01T01:10"));
  // A job that ends before the window may start, and so may the tenant's.
  JobSubmitted brief;
  brief.max_run = absl::Seconds(20);
  const JobId in_time = SubmitOf("shop", 50, 1, brief);
  EXPECT_TRUE(Lives(in_time));
  EXPECT_TRUE(Lives(SubmitOf("lab", 50)));
}

TEST_F(StepReservationsTest, AGangLeavesWhenOneOfItsDevicesIsReserved) {
  AddNodes(1, 3);
  const JobId gang = SubmitOf("shop", 60, 2);
  Begin(gang);
  const DeviceId one = job(gang).ranks[1].device;
  Reserve("lab", {one}, absl::ZeroDuration());
  EXPECT_EQ(ActionsOf<StopJob>(result).size(), 2u);
  Stop(gang);
  ASSERT_TRUE(Lives(gang));
  for (const Rank& rank : job(gang).ranks) EXPECT_NE(rank.device, one);
}

TEST_F(StepReservationsTest, AnElasticJobGoesOnWithWhatIsLeft) {
  AddNodes(1, 3);
  JobSubmitted elastic;
  elastic.device_counts = {1, 2, 3};
  const JobId id = SubmitOf("shop", 60, 1, elastic);
  ASSERT_EQ(job(id).device_count, 3u);
  Begin(id);
  Reserve("lab", {DeviceId(1)}, absl::ZeroDuration());
  Stop(id);
  ASSERT_TRUE(Lives(id));
  EXPECT_EQ(job(id).device_count, 2u);
  EXPECT_EQ(job(id).FindRank(DeviceId(1)), nullptr);
  Begin(id);
  // It does not grow back onto the reserved device.
  Pass(absl::Minutes(30));
  EXPECT_FALSE(job(id).stop_sent.has_value());
}

TEST_F(StepReservationsTest, NobodyIsPreemptedForAJobThatMayNotStartThere) {
  Use({.order = Order::kPriority});
  AddNodes(1, 1);
  Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  const JobId own = SubmitOf("lab");
  Begin(own);
  JobSubmitted urgent;
  urgent.priority = 100;
  const JobId other = SubmitOf("shop", 60, 1, urgent);
  EXPECT_FALSE(job(own).stop_sent.has_value());
  EXPECT_FALSE(Lives(other));
  // Among the tenant's own jobs the order counts.
  const JobId first = SubmitOf("lab", 60, 1, urgent);
  EXPECT_EQ(job(own).stop_sent, StopReason::kPreempted);
  Stop(own);
  EXPECT_TRUE(Lives(first));
}

TEST_F(StepReservationsTest, RoomThatWasMadeForAnotherIsGivenUp) {
  Use({.order = Order::kPriority});
  AddNodes(1, 1);
  const JobId low = SubmitOf("shop");
  Begin(low);
  JobSubmitted urgent;
  urgent.priority = 100;
  const JobId high = SubmitOf("shop", 60, 1, urgent);
  ASSERT_EQ(state.devices().at(DeviceId(0)).reserved_for, high);
  Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  EXPECT_FALSE(state.devices().at(DeviceId(0)).reserved_for.has_value());
  Stop(low);
  EXPECT_FALSE(Lives(high));
  EXPECT_TRUE(Lives(SubmitOf("lab")));
}

TEST_F(StepReservationsTest, DevicesHeldForAStarvedJobOfOthersAreGivenUp) {
  AddNodes(1, 2);
  std::vector<JobId> small;
  for (int i = 0; i < 2; ++i) small.push_back(SubmitOf("shop"));
  const JobId gang = SubmitOf("shop", 60, 2);
  for (uint32_t i = 0; i <= kMaxPasses; ++i) {
    small.push_back(SubmitOf("shop"));
    End(small[i], Outcome::kSucceeded);
  }
  ASSERT_FALSE(job(gang).held_devices.empty());
  Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  EXPECT_TRUE(job(gang).held_devices.empty());
  for (JobId id : small) {
    if (Lives(id) && !job(id).ranks.empty()) Stop(id);
  }
  EXPECT_TRUE(Lives(SubmitOf("lab")));
}

TEST_F(StepReservationsTest, BackfillDoesNotReserveWhatIsReserved) {
  Use({.order = Order::kBackfill});
  AddNodes(1, 2);
  Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  JobSubmitted known;
  known.expected_run = absl::Minutes(10);
  const JobId runs = SubmitOf("shop", 60, 1, known);
  const JobId waits = SubmitOf("shop", 60, 1, known);
  ASSERT_TRUE(Lives(runs));
  EXPECT_FALSE(Lives(waits));
  // It is not in the way of the first waiting job, however long it runs.
  EXPECT_TRUE(Lives(SubmitOf("lab")));
}

TEST_F(StepReservationsTest, FairSharesGiveTheTenantWhatIsReserved) {
  Use({.order = Order::kFairShare});
  AddNodes(1, 2);
  Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  for (int i = 0; i < 3; ++i) SubmitOf("shop");
  const JobId own = SubmitOf("lab");
  EXPECT_EQ(DeviceOf(own), DeviceId(0));
}

TEST_F(StepReservationsTest, WhatIsServedStaysAndLoadsGoElsewhereFirst) {
  AddNodes(1, 2);
  const VersionId old = Create("m", 1, 30);
  Load(old);
  const DeviceId there = *version(old).device;
  Reserve("lab", {there}, absl::ZeroDuration());
  EXPECT_EQ(version(old).state, VersionState::kReady);
  const VersionId next = Create("n", 1, 80);
  Load(next);
  EXPECT_NE(version(next).device, there);
  // If no other device is left, the reserved one is taken.
  const VersionId last = Create("o", 1, 60);
  Load(last);
  EXPECT_EQ(version(last).device, there);
}

TEST_F(StepReservationsTest, ADeviceThatFailsStaysReserved) {
  AddNodes(1, 1);
  Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  const JobId other = SubmitOf("shop");
  Send(WorkerLost{.device = DeviceId(0), .reason = "gone"});
  Send(WorkerReady{.device = DeviceId(0)});
  EXPECT_FALSE(Lives(other));
  EXPECT_TRUE(Lives(SubmitOf("lab")));
}

TEST_F(StepReservationsTest, OneThatBeganWhileNobodyRanTakesEffectAtOnce) {
  AddDevice("cuda:0", 100);
  Job running{{.tenant = "shop", .id = JobId(1), .bytes = 60}};
  running.state = JobState::kRunning;
  running.attempt = 1;
  running.ranks = {{DeviceId(0)}};
  last_job = 1;
  state.RestoreReservation({.id = ReservationId(1),
                            .name = "night",
                            .tenant = "lab",
                            .devices = {DeviceId(0)},
                            .start = now - absl::Minutes(1),
                            .end = now + absl::Minutes(1)});
  state.RestoreReservation({.id = ReservationId(2),
                            .name = "past",
                            .tenant = "shop",
                            .devices = {DeviceId(0)},
                            .start = now - absl::Minutes(3),
                            .end = now - absl::Minutes(2)});
  state.RestoreJob(std::move(running));
  restoring = true;
  Send(TimerFired{});
  EXPECT_EQ(state.reservations().all().size(), 1u);
  result = Send(WorkerReady{.device = DeviceId(0), .running = {{JobId(1), 1}}});
  const auto stops = ActionsOf<StopJob>(result);
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].reason, StopReason::kReserved);
  Stop(JobId(1));
  EXPECT_FALSE(Lives(JobId(1)));
  Pass(absl::Minutes(1));
  EXPECT_TRUE(Lives(JobId(1)));
}

TEST_F(StepReservationsTest, AJobThatComesBackWithItsWorkerIsSentAway) {
  AddNodes(1, 1);
  const JobId other = SubmitOf("shop");
  Begin(other);
  Send(WorkerLost{.device = DeviceId(0), .reason = "broken pipe"});
  ASSERT_EQ(job(other).state, JobState::kBackingOff);
  Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  result = Send(WorkerReady{.device = DeviceId(0), .running = {{other, 1}}});
  EXPECT_EQ(job(other).stop_sent, StopReason::kReserved);
}

TEST_F(StepReservationsTest, WhoAsksIsToldWhatWouldChangeIt) {
  AddNodes(1, 1);
  Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  const JobId other = SubmitOf("shop");
  const Explanation why = Explain(state, job(other), now);
  ASSERT_EQ(why.devices.size(), 1u);
  EXPECT_THAT(why.devices[0].obstacle,
              HasSubstr("it is reserved for lab until"));
  EXPECT_THAT(why.changes, Contains("reservation 'r1' for lab ends, in 1h"));
}

// If another obstacle remains, the end of the reservation would not let the job
// start there.
TEST_F(StepReservationsTest, OnlyWhatAloneIsInTheWayIsToldAsTheCause) {
  AddNodes(1, 2);
  const JobId faulty = SubmitOf("shop", 100);
  Begin(faulty);
  ASSERT_EQ(DeviceOf(faulty), DeviceId(0));
  Send(WorkerLost{DeviceId(0), "illegal address", DeviceFault::kLostContext});
  Send(WorkerReady{.device = DeviceId(0)});
  Reserve("lab", {DeviceId(0)}, absl::ZeroDuration());
  SubmitOf("shop", 100);
  const JobId waiting = SubmitOf("shop", 100);
  ASSERT_TRUE(state.devices().at(DeviceId(0)).cools());
  EXPECT_THAT(Why(waiting), AllOf(HasSubstr("cuda:0 is reserved for lab"),
                                  Not(HasSubstr("cools down"))));
  Send(DeviceDrainSet{DeviceId(0), DeviceDrain{.reason = "new fan"}});
  EXPECT_THAT(Why(waiting), AllOf(HasSubstr("cuda:0 is drained (new fan)"),
                                  Not(HasSubstr("is reserved for lab"))));
}

TEST_F(StepReservationsTest, AForecastKnowsWhenItEnds) {
  AddNodes(1, 1);
  Reserve("lab", {DeviceId(0)}, absl::Minutes(5));
  JobSubmitted known;
  known.expected_run = absl::Minutes(20);
  const JobId runs = SubmitOf("shop", 60, 1, known);
  Begin(runs);
  // It is preempted after five minutes and still needs fifteen after the hour.
  const JobId waits = SubmitOf("shop");
  const auto found = ForecastStarts(state.Clone(), {waits}, now);
  ASSERT_TRUE(found.at(waits).start.has_value()) << found.at(waits).why_unknown;
  EXPECT_EQ(*found.at(waits).start,
            now + absl::Minutes(65) + absl::Minutes(15));
  JobSubmitted own;
  own.id = JobId(99);
  own.tenant = "lab";
  own.bytes = 60;
  own.device_count = 1;
  const Forecast of_lab = ForecastSubmission(state.Clone(), own, now);
  ASSERT_TRUE(of_lab.start.has_value()) << of_lab.why_unknown;
  EXPECT_EQ(*of_lab.start, now + absl::Minutes(5));
}

TEST_F(StepReservationsTest, WhatIsMadeForATimeThatIsOverIsStale) {
  AddNodes(1, 1);
  Reserve("lab", {DeviceId(0)}, absl::Hours(-2));
  EXPECT_TRUE(result.stale);
  EXPECT_TRUE(state.reservations().empty());
}

}  // namespace
}  // namespace gpupool::scheduler
