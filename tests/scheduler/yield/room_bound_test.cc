#include "scheduler/yield/room_bound.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

class RoomBoundTest : public SchedulerTest {
 protected:
  RoomBoundTest() {
    state.SetPolicy(
        {.order = Order::kLeastAttained, .restart_cost = absl::Seconds(60)});
  }
  // Runs a job with `bytes` on each of its devices.
  JobId Run(uint64_t bytes, uint32_t devices = 1) {
    const JobId id = SubmitGang(bytes, devices);
    Begin(id);
    return id;
  }
  bool MayHold(double standing) {
    const RunningJobs running(state, now, nothing);
    Job waiting;
    waiting.bytes = 100;
    waiting.standing = standing;
    return RoomBound(running, 0, false).MayHold(waiting);
  }
  const absl::btree_set<DeviceId> nothing;
};

TEST_F(RoomBoundTest, OnlyWhoStandsFarEnoughBehindIsCounted) {
  AddNodes(1, 1);
  const JobId old = Run(100);
  now += absl::Hours(1);
  Send(TimerFired{});
  const double standing = job(old).standing;
  ASSERT_GT(standing, 0);
  EXPECT_TRUE(MayHold(standing / 2.1));
  EXPECT_FALSE(MayHold(standing / 1.9));
}

// Returns what RoomFor returns, without the bound: whether one machine has
// enough devices that are free, or become free when the jobs leave that may be
// preempted.
bool HasRoom(const RunningJobs& running, const Job& waiting) {
  std::map<uint32_t, uint32_t> open;  // by site
  for (const RunningJobs::Spot& spot : running.spots()) {
    const Need need = NeedOf(running.state(), waiting);
    if (!DeviceMatches(*spot.device, need)) continue;
    if (!running.IsAdmitted(spot, need)) continue;
    uint64_t bytes = spot.device->free_bytes();
    bool has_gang = false;
    for (const RunningJobs::OnDevice& job : running.On(spot)) {
      const bool leaves = job.stops || (job.can_give_way &&
                                        job.behind() > running.Stays(waiting));
      if (leaves) bytes += BytesOn(*job.job, *spot.device);
      has_gang = has_gang || (!leaves && job.job->device_count > 1);
    }
    if (has_gang && waiting.device_count > 1) continue;
    if (bytes >= NeededOn(need, *spot.device)) ++open[spot.device->site];
  }
  for (const auto& [site, devices] : open) {
    if (devices >= waiting.device_count) return true;
  }
  return false;
}

// A pool in which jobs are submitted, run and are told to stop, at random.
class RandomPool : public RoomBoundTest,
                   public ::testing::WithParamInterface<uint32_t> {
 protected:
  void Turn() {
    now += absl::Seconds(random_() % 600);
    Send(TimerFired{});
    const uint32_t devices[] = {1, 1, 1, 2, 4, 8};
    SubmitOne(
        {.bytes = 10 + random_() % 90, .device_count = devices[random_() % 6]});
    for (const auto& [id, job] : state.jobs()) {
      if (job.state == JobState::kStarting) begin_.push_back(id);
      // Some jobs take time to stop.
      if (job.stop_sent && random_() % 2 == 0) stop_.push_back(id);
      if (job.state == JobState::kRunning && random_() % 12 == 0) {
        stop_.push_back(id);
      }
    }
    for (JobId id : std::exchange(begin_, {})) {
      if (job(id).state == JobState::kStarting) Begin(id);
    }
    for (JobId id : std::exchange(stop_, {})) EndAll(id);
  }

  void SubmitOne(JobSubmitted event) {
    event.id = JobId(++last_job);
    event.priority = static_cast<int>(random_() % 2);
    if (are_particular_) {
      event.demands.exclusive = random_() % 4 == 0;
      if (event.device_count == 1 && random_() % 3 == 0) {
        event.wanted_device = absl::StrCat("cuda:", random_() % 24);
      }
    }
    Send(event);
  }

  void EndAll(JobId id) {
    if (!IsLive(job(id).state)) return;
    const Outcome outcome =
        job(id).stop_sent ? Outcome::kStopped : Outcome::kSucceeded;
    const Ranks ranks = job(id).ranks;
    const AttemptRef attempt{id, job(id).attempt};
    for (const Rank& rank : ranks) {
      Send(AttemptEnded{rank.device, attempt, outcome, ""});
    }
    state.ForgetJob(id);
  }

  void ExpectNoRoomIsOverlooked();

  std::mt19937 random_{GetParam()};
  bool are_particular_ = false;  // some are exclusive or want one device
  std::vector<JobId> begin_;
  std::vector<JobId> stop_;
};

void RandomPool::ExpectNoRoomIsOverlooked() {
  AddNodes(6, 4);
  size_t rooms = 0;
  size_t refused = 0;
  for (int turn = 0; turn < 300; ++turn) {
    Turn();
    const RunningJobs running(state, now, nothing);
    RoomBound in_turn(running, 0, false);
    std::vector<Job> jobs;
    for (const QueueKey& key : state.queue()) {
      if (!job(key.job).reserved_devices.empty()) continue;
      jobs.emplace_back().bytes = job(key.job).bytes;
      jobs.back().device_count = job(key.job).device_count;
      jobs.back().wanted_device = job(key.job).wanted_device;
      jobs.back().demands.exclusive = job(key.job).demands.exclusive;
      jobs.back().priority = key.priority;
      // If there was room for the jobs as they wait, it has been made.
      jobs.back().standing = key.standing * (random_() % 8) / 4;
    }
    // Any order is allowed. The queue's order is fast.
    const auto by_key = [](const Job& a, const Job& b) {
      return KeyOf(a) < KeyOf(b);
    };
    if (turn % 2 == 0) std::sort(jobs.begin(), jobs.end(), by_key);
    for (const Job& waiting : jobs) {
      const bool may_hold = in_turn.MayHold(waiting);
      ASSERT_EQ(may_hold, RoomBound(running, 0, false).MayHold(waiting));
      const bool has_room = HasRoom(running, waiting);
      rooms += has_room;
      refused += !may_hold;
      ASSERT_TRUE(may_hold || !has_room);
      // With one device the bound is exact.
      if (waiting.device_count == 1) {
        ASSERT_EQ(may_hold, has_room);
      }
    }
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(rooms, 100u);
}

TEST_P(RandomPool, NoRoomIsOverlooked) { ExpectNoRoomIsOverlooked(); }

TEST_P(RandomPool, NorForJobsThatAreExclusiveOrWantOneDevice) {
  are_particular_ = true;
  ExpectNoRoomIsOverlooked();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPool, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace gpupool::scheduler
