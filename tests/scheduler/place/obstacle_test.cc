#include "scheduler/place/obstacle.h"

#include <random>

#include "scheduler/state/state_editor.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

class ObstacleTest : public SchedulerTest {
 protected:
  ObstacleTest() { id = AddReadyDevice("cpu:0", 100); }

  const Device& device() const { return state.devices().at(id); }
  Device& broken() { return *edit.FindDevice(id); }
  std::optional<ObstacleKind> Kind(const Need& need,
                                   const Meanwhile& until = {}) const {
    const auto obstacle = ObstacleFor(state, device(), need, until);
    if (!obstacle) return std::nullopt;
    return obstacle->kind;
  }
  std::string Text(const Need& need) const {
    const auto obstacle = ObstacleFor(state, device(), need);
    return obstacle ? ObstacleText(state, device(), need, *obstacle) : "";
  }

  StateEditor edit{state};
  DeviceId id;
  Need need{.bytes = 60, .wanted_device = "", .job = JobId(50)};
};

TEST_F(ObstacleTest, NothingIsInTheWayOnAFreeDevice) {
  EXPECT_EQ(Kind(need), std::nullopt);
  need.bytes = 100;
  EXPECT_EQ(Kind(need), std::nullopt);
}

TEST_F(ObstacleTest, WhatIsWantedAndHowMuchThereIsLast) {
  need.wanted_device = "cuda";
  EXPECT_EQ(Kind(need), ObstacleKind::kNotWanted);
  need = {.bytes = 101, .wanted_device = ""};
  EXPECT_EQ(Kind(need), ObstacleKind::kTooSmall);
  EXPECT_EQ(Text(need), "too small: it has 100 B in all");
  EXPECT_EQ(Kind(need, WhenEmptied(device())), ObstacleKind::kTooSmall);
  EXPECT_TRUE(Lasts(ObstacleKind::kTooSmall));
  EXPECT_FALSE(Lasts(ObstacleKind::kHeldBack));
}

TEST_F(ObstacleTest, PeopleHoldDevicesBack) {
  Send(MemoryFractionSet{id, 0.5});
  EXPECT_EQ(Text(need), "its memory fraction of 0.5 leaves only 50 B");
  Send(MemoryFractionSet{id, 1});
  Send(DeviceDrainSet{id, DeviceDrain{}});
  EXPECT_EQ(Text(need), "drained");
  Send(DeviceDrainSet{id, DeviceDrain{.reason = "new fan"}});
  EXPECT_EQ(Text(need), "drained: new fan");
  EXPECT_EQ(Kind(need, WhenEmptied(device())), ObstacleKind::kDrained);
  Send(WorkerLost{id, "gone"});
  EXPECT_EQ(Text(need), "its worker is not ready");
}

TEST_F(ObstacleTest, APromiseKeepsOthersAway) {
  const JobId waiting = Submit(500);
  edit.Reserve(*edit.FindJob(waiting), {id});
  EXPECT_EQ(Text(need), "others make room here for job 1");
  EXPECT_EQ(Kind(need, {.promise_kept = true}), std::nullopt);
  need.job = waiting;
  EXPECT_EQ(Kind(need), std::nullopt);
}

TEST_F(ObstacleTest, AReservationKeepsJobsOfOthersAway) {
  need.visitor = {.tenant = "shop", .least_run = absl::Minutes(5)};
  Send(ReservationMade{{.id = ReservationId(1),
                        .name = "r1",
                        .tenant = "lab",
                        .devices = {id},
                        .start = now + absl::Minutes(2),
                        .end = now + absl::Hours(1)}});
  EXPECT_EQ(Text(need),
            "it is reserved for lab from 1970-01-01T00:02:00+00:00 until "
            "1970-01-01T01:00:00+00:00: the job would have to go too soon");
  EXPECT_EQ(Kind(need, {.reservation_over = true}), std::nullopt);
  need.visitor.tenant = "lab";
  EXPECT_EQ(Kind(need), std::nullopt);
  need.visitor.tenant = "shop";
  need.job.reset();
  EXPECT_EQ(Kind(need), std::nullopt) << "what is served may go anywhere";
}

TEST_F(ObstacleTest, JobsOnSeveralDevicesNeverShareOne) {
  AddReadyDevice("cpu:1", 100);
  const JobId gang = SubmitGang(10, 2);
  ASSERT_TRUE(job(gang).RunsOn(id));
  EXPECT_EQ(Kind(need), std::nullopt);
  need.devices = 2;
  EXPECT_EQ(Text(need), "job 1 runs here on several devices, too");
  Meanwhile until;
  until.Leave(job(gang), device());
  EXPECT_EQ(Kind(need, until), std::nullopt);
}

TEST_F(ObstacleTest, DevicesOfAJobComeBackTogether) {
  AddReadyDevice("cpu:1", 100);
  const JobId gang = SubmitGang(10, 2);
  EndRank(gang, 0, Outcome::kSucceeded);
  ASSERT_EQ(device().settling, 1u);
  EXPECT_EQ(Text(need), "a job on several devices is just ending");
  EXPECT_EQ(Kind(need, WhenSettled(device())), std::nullopt);
}

TEST_F(ObstacleTest, ACoolDownKeepsJobsAwayAndNotWhatIsServed) {
  edit.SetCoolsUntil(broken(), now + absl::Seconds(90));
  broken().faults = 2;
  broken().fault_text = "illegal address";
  EXPECT_EQ(Text(need),
            "cools down for another 1m30s after 2 faults in a row: illegal "
            "address");
  EXPECT_EQ(Kind(need, {.cooled = true}), std::nullopt);
  need.job.reset();
  EXPECT_EQ(Kind(need), std::nullopt);
}

TEST_F(ObstacleTest, BytesThatOthersHoldAreMissing) {
  const JobId there = Submit(70);
  EXPECT_EQ(Text(need), "lacks 30 B");
  EXPECT_EQ(Kind(need, {.returned_bytes = 29}), ObstacleKind::kLacksBytes);
  EXPECT_EQ(Kind(need, {.returned_bytes = 30}), std::nullopt);
  need.demands.exclusive = true;
  EXPECT_EQ(Text(need), "not empty, and the job shares no device");
  Meanwhile until;
  until.Leave(job(there), device());
  EXPECT_EQ(Kind(need, until), std::nullopt);
  until.returned_bytes -= 1;
  EXPECT_EQ(Kind(need, until), ObstacleKind::kLacksBytes);
}

TEST_F(ObstacleTest, TheBytesOfStraysComeBack) {
  edit.AddStray(broken(), AttemptRef{JobId(70), 1}, 90);
  EXPECT_EQ(Kind(need), ObstacleKind::kLacksBytes);
  EXPECT_EQ(Kind(need, WhenSettled(device())), std::nullopt);
}

TEST_F(ObstacleTest, AnExclusiveJobHasItsDeviceToItself) {
  const JobId alone(++last_job);
  Send(JobSubmitted{.demands = {.exclusive = true}, .id = alone, .bytes = 10});
  EXPECT_EQ(Text(need), "job 1 has it to itself");
}

TEST_F(ObstacleTest, TheMachineMustSpareWhatTheJobNeeds) {
  state.SetHost(0, {.milli_cores = 4000});
  need.demands.host = {.milli_cores = 4001};
  EXPECT_EQ(Text(need), "its machine cannot spare 4.001 host cores");
  EXPECT_EQ(Kind(need, {.host_freed = true}), std::nullopt);
  need.demands.host.milli_cores = 4000;
  EXPECT_EQ(Kind(need), std::nullopt);
}

TEST_F(ObstacleTest, WhatLastsIsToldFirst) {
  Submit(70);
  Send(DeviceDrainSet{id, DeviceDrain{.lets_finish = true}});
  EXPECT_EQ(Kind(need), ObstacleKind::kDrained);
  need.bytes = 200;
  EXPECT_EQ(Kind(need), ObstacleKind::kTooSmall);
  EXPECT_EQ(FaultsText(device()), "a fault");
}

// The bounds rely on this: if the least need meets an obstacle that is not a
// device kept for the job itself, every job of the queue meets one.
TEST_F(ObstacleTest, WhatStopsTheLeastNeedStopsEveryJob) {
  AddReadyDevice("cpu:1", 100);
  std::mt19937 random(7);
  const auto one_in = [&](int n) { return random() % n == 0; };
  int stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    Device& there = broken();
    there.ready = !one_in(4);
    there.settling = one_in(4);
    there.gangs = one_in(3);
    there.reserved_for.reset();
    if (one_in(4)) there.reserved_for = JobId(60);
    edit.SetCoolsUntil(
        there, one_in(4) ? now + absl::Seconds(9) : absl::InfinitePast());
    need.bytes = random() % 100;
    need.devices = 1 + random() % 2;
    need.demands.exclusive = one_in(3);
    if (!Kind(LeastNeed(nullptr))) continue;
    ++stopped;
    EXPECT_NE(Kind(need), std::nullopt) << "round " << round;
  }
  EXPECT_GT(stopped, 100);
}

}  // namespace
}  // namespace gpupool::scheduler
