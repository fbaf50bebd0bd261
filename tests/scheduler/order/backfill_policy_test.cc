#include "scheduler/order/backfill_policy.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;

// Devices of 100 bytes. A job of 100 has a device to itself.
class BackfillPolicyTest : public SchedulerTest {
 protected:
  BackfillPolicyTest() { state.SetPolicy({.order = Order::kBackfill}); }

  JobId SubmitFor(std::optional<absl::Duration> expected, uint32_t devices = 1,
                  uint64_t bytes = 100) {
    const JobId id(++last_job);
    Send(JobSubmitted{.id = id,
                      .bytes = bytes,
                      .device_count = devices,
                      .expected_run = expected});
    if (job(id).state == JobState::kStarting) Begin(id);
    return id;
  }
  bool Waits(JobId id) const { return job(id).state == JobState::kQueued; }
  std::optional<Reservation> RoomFor(JobId id) const {
    return EarliestRoom(state, NeedOf(state, job(id)), now, {});
  }
};

TEST_F(BackfillPolicyTest, AReservationIsWhereTheRunningJobsEndFirst) {
  AddNodes(2, 2);
  SubmitFor(absl::Hours(5));
  SubmitFor(absl::Hours(1));
  SubmitFor(absl::Hours(2));
  SubmitFor(absl::Hours(3));
  const JobId first = SubmitFor(absl::Hours(1), 2);
  now += absl::Minutes(30);
  const auto room = RoomFor(first);
  ASSERT_TRUE(room.has_value());
  EXPECT_EQ(room->at, absl::UnixEpoch() + absl::Hours(3));
  EXPECT_THAT(room->devices, ElementsAre(DeviceId(2), DeviceId(3)));
}

TEST_F(BackfillPolicyTest, WholeMachinesAreReservedTogether) {
  AddNodes(3, 2);
  SubmitFor(absl::Hours(5), 2);
  SubmitFor(absl::Hours(1), 2);
  SubmitFor(absl::Hours(2), 2);
  const JobId first = SubmitFor(absl::Hours(1), 4);
  const auto room = RoomFor(first);
  ASSERT_TRUE(room.has_value());
  EXPECT_EQ(room->at, now + absl::Hours(2));
  EXPECT_THAT(room->devices,
              ElementsAre(DeviceId(2), DeviceId(3), DeviceId(4), DeviceId(5)));
}

TEST_F(BackfillPolicyTest, ALaterJobThatEndsInTimeStartsAhead) {
  AddNodes(1, 2);
  SubmitFor(absl::Hours(2));
  const JobId first = SubmitFor(absl::Hours(1), 2);
  const JobId too_long = SubmitFor(absl::Hours(3));
  const JobId in_time = SubmitFor(absl::Hours(2));
  EXPECT_TRUE(Waits(first));
  EXPECT_TRUE(Waits(too_long));
  EXPECT_FALSE(Waits(in_time));
}

TEST_F(BackfillPolicyTest, ALongJobStartsBesideTheReservation) {
  AddNodes(2, 2);
  SubmitFor(absl::Hours(1));
  const JobId elsewhere = SubmitFor(absl::Hours(9));
  ASSERT_EQ(DeviceOf(elsewhere), DeviceId(1));
  SubmitFor(absl::Hours(7));
  const JobId first = SubmitFor(absl::Hours(1), 2);
  ASSERT_TRUE(Waits(first));
  ASSERT_EQ(RoomFor(first)->at, now + absl::Hours(7));
  // The reservation is on machine 1, which has a free device.
  const JobId long_job = SubmitFor(absl::Hours(8));
  EXPECT_TRUE(Waits(long_job));
  // The one-hour job ends, so its device is free as well.
  now += absl::Hours(1);
  End(JobId(1), Outcome::kSucceeded);
  EXPECT_FALSE(Waits(long_job));
  EXPECT_EQ(DeviceOf(long_job), DeviceId(0));
  EXPECT_EQ(RoomFor(first)->at, absl::UnixEpoch() + absl::Hours(7));
}

TEST_F(BackfillPolicyTest, AJobOfUnknownLengthDoesNotDelayTheFirst) {
  AddNodes(1, 2);
  SubmitFor(absl::Hours(2));
  SubmitFor(absl::Hours(1), 2);
  EXPECT_TRUE(Waits(SubmitFor(std::nullopt)));
}

TEST_F(BackfillPolicyTest, WithoutKnownEndsPassesAreCounted) {
  AddNodes(1, 2);
  SubmitFor(std::nullopt);
  const JobId first = SubmitFor(absl::Hours(1), 2);
  EXPECT_FALSE(RoomFor(first).has_value());
  for (uint32_t pass = 1; pass <= kMaxPasses; ++pass) {
    const JobId later = SubmitFor(absl::Hours(1));
    ASSERT_FALSE(Waits(later)) << pass;
    EXPECT_EQ(job(first).passes, pass);
    End(later, Outcome::kSucceeded);
  }
  EXPECT_TRUE(Waits(SubmitFor(absl::Hours(1))));
}

TEST_F(BackfillPolicyTest, AJobThatOverrunsMayEndAnyMoment) {
  AddNodes(1, 1);
  const JobId running = SubmitFor(absl::Hours(1));
  const JobId first = SubmitFor(absl::Hours(1));
  now += absl::Hours(2);
  EXPECT_EQ(ExpectedEnd(job(running), now), now);
  EXPECT_EQ(RoomFor(first)->at, now);
}

TEST_F(BackfillPolicyTest, BytesThatComeBackCountDeviceByDevice) {
  AddNodes(1, 1);
  SubmitFor(absl::Hours(1), 1, 60);
  SubmitFor(absl::Hours(2), 1, 40);
  const JobId half = SubmitFor(absl::Hours(1), 1, 50);
  EXPECT_EQ(RoomFor(half)->at, now + absl::Hours(1));
  const JobId all = SubmitFor(absl::Hours(1), 1, 90);
  EXPECT_EQ(RoomFor(all)->at, now + absl::Hours(2));
}

TEST_F(BackfillPolicyTest, AServedModelDoesNotLeaveByItself) {
  AddNodes(1, 1);
  Load(Create("digits", 1, 20));
  const JobId running = SubmitFor(absl::Hours(1), 1, 60);
  const JobId fits = SubmitFor(absl::Hours(1), 1, 80);
  EXPECT_EQ(RoomFor(fits)->at, ExpectedEnd(job(running), now));
  EXPECT_FALSE(RoomFor(SubmitFor(absl::Hours(1), 1, 90)).has_value());
}

// With exact run times, a later job never delays the first waiting job: its
// start never moves behind the reservation that it had when it became first.
TEST_F(BackfillPolicyTest, ReservationsNeverMoveBack) {
  constexpr uint32_t kSeed = 20260707;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  AddNodes(3, 4);
  std::vector<std::pair<absl::Time, JobId>> ends;
  JobId first;
  absl::Time promised = absl::InfiniteFuture();
  const auto begin_all = [&] {
    for (const auto& [id, job] : state.jobs()) {
      if (job.state != JobState::kStarting) continue;
      if (id == first) {
        EXPECT_LE(now, promised);
      }
      ends.emplace_back(now + *job.expected_run, id);
    }
    for (const auto& [end, id] : ends) {
      if (job(id).state == JobState::kStarting) Begin(id);
    }
    if (state.queue().empty()) return;
    const JobId head = state.queue().begin()->job;
    const absl::Time at = RoomFor(head)->at;
    if (head == first) {
      EXPECT_LE(at, promised);
    }
    first = head;
    promised = at;
  };
  for (int event = 0; event < 2000; ++event) {
    if (random() % 2 == 0 || ends.empty()) {
      const uint32_t sizes[] = {1, 1, 1, 2, 3, 4, 8};
      const JobId id(++last_job);
      Send(JobSubmitted{.id = id,
                        .bytes = 100,
                        .device_count = sizes[random() % 7],
                        .expected_run = absl::Seconds(1 + random() % 1000)});
    } else {
      const auto next = std::min_element(ends.begin(), ends.end());
      const JobId id = next->second;
      now = next->first;
      ends.erase(next);
      for (uint32_t rank = 0; rank < job(id).device_count; ++rank) {
        EndRank(id, rank, Outcome::kSucceeded);
      }
    }
    begin_all();
  }
}

}  // namespace
}  // namespace gpupool::scheduler
