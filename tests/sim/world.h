// A whole installation in virtual time, determined by a seed. It contains
// clients, the scheduler, and workers that train (alone and in groups) and
// serve. It simulates lost workers, broken connections, restarts of the server,
// messages that come late, twice or out of order, a slow disk, and clocks that
// jump. Invariants are checked after every event.
//
// The server works in turns, like server/control: it takes the waiting events,
// steps, commits, and only then answers, acknowledges and acts. A crash may
// happen at any moment of a turn. Then committed data is copied into a fresh
// State, as in server/control/recovery, and everything else is lost.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "scheduler/step/invariants.h"
#include "scheduler/step/step.h"

namespace gpupool::scheduler {

struct WorldOptions {
  uint64_t seed = 1;
  int devices = 3;
  uint64_t device_bytes = 1000;
  int max_events = 20000;  // Step() calls of the troubled phase
  // After the troubled phase the faults stop, and the world runs until it is
  // quiet.
  double lose_worker = 0.004;  // per disturbance tick
  double break_connection = 0.03;
  double restart_server = 0.01;
  double drain_and_restart = 0.005;
  double drain_device = 0.01;  // per disturbance tick
  double doubled_message = 0.05;
  absl::Duration between_jobs = absl::Milliseconds(300);  // on average
  double gang = 0.3;     // share of jobs on several devices
  double elastic = 0.2;  // share of jobs that may have more devices
  double asked = 0.2;    // per tick: a client holds, releases or requeues a job
  double waits = 0.2;    // share of jobs that wait for others
  double arrays = 0.1;   // share of submissions that are arrays
  double limits = 0.1;   // share of jobs with each kind of time limit
  // Per tick: devices are reserved for a tenant, or a reservation is cancelled.
  double reserves = 0.1;
  // Share of jobs on one device, and of loads, that name a device. Also the
  // share of jobs that are exclusive.
  double pinned = 0;
  double exclusive = 0;
  QueuePolicy policy;
  double slow_commit = 0.02;
  double clock_jump = 0.01;  // per disturbance tick
  // A bug to be found: clients and workers are answered before the commit.
  bool answers_too_early = false;
  // Another bug: workers are told to act before the commit.
  bool acts_too_early = false;
  // Called before each invariant check, so that a test can break the state.
  std::function<void(State&, int events)> sabotage;
};

struct WorldReport {
  std::string failure;  // empty: all rules were kept
  int events = 0;
  int jobs = 0;
  int succeeded = 0, failed = 0, cancelled = 0;
  int commits = 0, lost_turns = 0, clock_jumps = 0;
  int lost_workers = 0, restarts = 0, taken_back = 0, stale = 0;
  int versions_ready = 0;
  int rehearsals = 0, given_up = 0;  // of versions under which workers ended
  int tried_jobs = 0, poisonous_jobs = 0;  // that failed before they started
  int gangs = 0, gangs_succeeded = 0;      // jobs on several devices
  int arrays = 0, held_back = 0;  // and events with tasks held back by a limit
  int preemptions = 0, held = 0, requeued = 0, blamed = 0;
  int yielded = 0, grown = 0, shrunk = 0;
  int drained = 0;    // jobs that left a drained device
  int outranked = 0;  // jobs that gave way to a queue of higher rank
  int saved_behind = 0, full_disks = 0, killed_saving = 0;
  int after_others = 0, at_limits = 0;  // jobs that failed by these
  int reservations = 0, sent_away = 0;  // and jobs that were preempted for them
  int pinned = 0, exclusive = 0;        // jobs that succeeded
};

class World {
 public:
  explicit World(WorldOptions options);
  WorldReport Run();

 private:
  struct Attempt {
    uint64_t step = 0;
    uint64_t total = 0;
    bool stop = false;
    uint32_t rank = 0;
    uint32_t ranks = 1;
  };
  // The ranks of one attempt that have found each other so far.
  struct Group {
    std::map<uint32_t, DeviceId> ranks;
    bool over = false;  // no rank waits for another any more
  };
  // One worker process. `boot` identifies the process, `link` the connection.
  // Messages to or from an older one are dropped.
  struct Worker {
    DeviceId device;
    bool alive = true;
    bool connected = false;
    uint64_t boot = 1;
    uint64_t link = 0;
    std::map<AttemptRef, Attempt> running;
    std::set<AttemptRef> saving;  // off the device, not on disk yet
    std::set<VersionId> loaded;
    // Reports by sequence that are on the worker's disk and not acknowledged.
    std::map<uint64_t, Event> spool;
    uint64_t last_sequence = 0;
    uint64_t server_link = 0;  // the connection that the server knows of
    absl::Time last_to_worker, last_to_server;
  };

  // Simulation core.
  void At(absl::Duration delay, std::function<void()> run);
  bool Chance(double probability);
  uint64_t Below(uint64_t bound);
  absl::Duration Latency();
  void Fail(const std::string& text);

  // Server side. Enqueues work for a turn. `answer` runs after the commit of
  // that turn.
  void Enqueue(std::function<void()> work,
               std::function<void()> answer = nullptr);
  void Deliver(const Event& event);
  void BeginTurn();
  void Commit();
  void Answer();
  void Act();
  void Apply(const Event& event);
  absl::Time ServerNow() const { return now_ + clock_offset_; }
  void Forget(JobId id);
  void SetTimerAt(absl::Time time);
  void JumpClock();
  void Know(JobId job, JobState now);
  void Check(const StepResult& result);
  void Perform(const Action& action);
  void Publish(JobId job);
  // Returns whether workers end when they load the version.
  bool IsPoisonous(VersionId version) const;
  void Rehearse(const RehearseVersion& action);
  // Returns whether workers end when they start the job.
  static bool IsPoisonous(JobId job) { return job.value() % 11 == 0; }
  void Rehearse(JobId job);
  void RestartServer();
  bool SomeRankCools(const Job& job) const;
  bool SomeRankIsDrained(const Job& job) const;
  bool KeepsToItsQueue(const Job& job) const;
  bool KeepsFromReserved(const Job& job) const;
  // Returns a queue of the policy in which the job can start, or "" if there is
  // only one queue.
  std::string DrawQueue(uint32_t devices);
  // Returns the name of a device, or "".
  std::string DrawDevice();
  bool Quiet() const;
  std::string TextOfWaiting() const;

  // Worker side.
  void Connect(Worker& worker);
  void Disconnect(Worker& worker);
  // `work`: what the worker did when it was killed.
  void Kill(Worker& worker, const WorkAtEnd& work = {});
  void ToWorker(DeviceId device, std::function<void(Worker&)> run);
  void ToServer(Worker& worker, Event event);
  // Spools the event until it is acknowledged.
  void Report(Worker& worker, Event event);
  void SendReport(Worker& worker, uint64_t sequence);
  void StartAttempt(Worker& worker, const StartJob& action, uint64_t from);
  void Tick(DeviceId device, uint64_t boot, AttemptRef attempt);
  void JoinGroup(Worker& worker, AttemptRef attempt);
  // Makes the next step of all ranks.
  void GroupTick(AttemptRef attempt);
  // All ranks end with the same outcome, each at its own time.
  void EndGroup(AttemptRef attempt, Outcome outcome);
  // A rank is lost. The others notice it, each at its own time.
  void BreakGroup(AttemptRef attempt);
  void EndRankLater(DeviceId device, AttemptRef attempt, Outcome outcome);
  void Stop(Worker& worker, AttemptRef attempt, StopReason reason);
  void EndAttempt(Worker& worker, AttemptRef attempt, Outcome outcome);
  // The attempt has left the device. Its checkpoint is written later, or never.
  void SaveBehind(Worker& worker, AttemptRef attempt, uint64_t step);
  void ReportCheckpoint(Worker& worker, AttemptRef attempt, uint64_t step);

  // Clients and faults.
  void SubmitJobs();
  JobSubmitted WithoutEnded(JobSubmitted job) const;
  // Repeats the submission until it is answered.
  void Submit(const JobSubmitted& job, bool cancel);
  void SubmitArray(const JobSubmitted& job);
  void SendArray(const ArraySubmitted& array, bool cancel);
  // Sometimes holds and releases, or requeues, all its tasks.
  void AskForArray(JobId id);
  void Disturb();
  void DrainADevice();
  void TouchVersions();
  void AskForJobs();
  void ReserveDevices();
  void ReleaseAll();
  void Count(const StepResult& result);

  WorldOptions options_;
  std::mt19937_64 random_;
  absl::Time now_ = absl::UnixEpoch();
  uint64_t order_ = 0;
  struct Pending {
    absl::Time time;
    uint64_t order;
    std::function<void()> run;
    bool operator>(const Pending& other) const {
      return std::tie(time, order) > std::tie(other.time, other.order);
    }
  };
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending_;

  // State that a crash destroys.
  State state_;
  std::map<JobId, JobState> known_;  // the last observed state of every job
  // The states before the turn, for the jobs that the turn has changed.
  std::map<JobId, std::optional<JobState>> turn_known_;
  std::map<DeviceId, uint64_t> taken_;  // sequence of the last report taken
  std::deque<std::pair<std::function<void()>, std::function<void()>>> inbox_;
  std::vector<Action> turn_actions_;
  std::vector<std::function<void()>> turn_answers_;
  bool in_turn_ = false;
  std::set<absl::Time> timers_;
  // State that is on disk.
  struct Disk {
    std::vector<Job> jobs;  // by rising id
    std::vector<Version> versions;
    std::vector<TenantReservation> reservations;
    std::map<DeviceId, uint64_t> taken;
    uint64_t last_version = 0;
    std::map<DeviceId, DeviceDrain> drains;
  };
  Disk disk_;
  absl::Duration clock_offset_;
  std::set<JobId> array_ids_;
  std::set<JobId> acknowledged_;  // as submitted
  std::set<JobId> cancelled_;     // and that was acknowledged
  std::set<std::pair<AttemptRef, uint32_t>> started_;  // with the rank
  std::map<JobId, std::set<uint64_t>> on_disk_;  // steps with a checkpoint
  std::map<JobId, uint64_t> resumed_from_;       // the last attempt
  std::vector<Worker> workers_;
  std::map<JobId, uint64_t> total_steps_;
  std::set<JobId> gangs_;
  std::set<JobId> pinned_, exclusive_;  // ids of arrays, too
  std::map<AttemptRef, Group> groups_;
  std::map<VersionId, uint64_t> version_link_;
  std::vector<Event> old_reports_;
  uint64_t last_job_ = 0;
  uint64_t last_version_ = 0;
  uint64_t last_reservation_ = 0;
  uint64_t server_boot_ = 1;
  bool troubled_ = true;
  absl::Time troubled_until_;
  bool restoring_ = false;
  WorldReport report_;
};

}  // namespace gpupool::scheduler
