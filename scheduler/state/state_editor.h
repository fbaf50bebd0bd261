// All changes that Step() may make to a State. Each keeps the indexes and the
// byte counters consistent, so that handlers only state what happens.
//
// Thread-safety: as State. Refers to the state and owns nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {

class StateEditor {
 public:
  explicit StateEditor(State& state) : state_(state) {}

  // Advances the time. Never goes back.
  void SetNow(absl::Time now) { state_.now_ = std::max(state_.now_, now); }

  // Returns null when unknown. Fields with an index (state, ranks, wake_time,
  // bytes, priority) must be changed through the functions below.
  Job* FindJob(JobId id);
  Version* FindVersion(VersionId id);
  Device* FindDevice(DeviceId id);

  Job& AddJob(Job job);
  Version& AddVersion(Version version);
  void RemoveJob(JobId id);
  void RemoveVersion(VersionId id);

  // Sets the number of devices that the job starts with next.
  void SetDeviceCount(Job& job, uint32_t count);
  // Holds or releases the job. A held job gives up held and reserved devices.
  void SetHeld(Job& job, bool held);
  // Lets the job start, now that it was tried.
  void SetTried(Job& job);
  // Ends the job's wait for `prerequisite`.
  void RemovePrerequisite(Job& job, JobId prerequisite);
  // Ignores the job's limits until its state changes.
  void ForgetLimit(Job& job);

  // Changes the state and keeps the queue consistent. A job that leaves QUEUED
  // gives up held and reserved devices.
  void SetJobState(Job& job, JobState state);
  // Starts or stops the job's run time. A second call in a row is a no-op.
  void StartClock(Job& job, absl::Time now);
  void StopClock(Job& job, absl::Time now);
  // Computes the standing of a running job again and notes when to do so next.
  void NoteStandingChange(Job& job, absl::Time now);
  // Learns the run time of a job that ended by itself.
  void LearnRunTime(const Job& job);
  // Learns the need of a submitted job.
  void LearnNeed(const Job& job);
  void SetExpectedRun(Job& job, absl::Duration expected, absl::Time now);
  void SetWakeTime(Job& job, absl::Time time);
  void AddRestartCost(absl::Duration cost) { state_.restart_cost_.Add(cost); }

  // The functions below book and give back planned bytes. Releasing what is not
  // placed is a no-op. A job is booked on the devices of those ranks that have
  // not ended.
  void PlaceJob(Job& job, Ranks ranks);
  void EndRank(Job& job, DeviceId device, Outcome outcome);
  void SetMissing(Job& job, DeviceId device, bool missing);
  void ReleaseJob(Job& job);
  void SetUnderLoad(Version& version, bool under_load);
  void PlaceVersion(Version& version, DeviceId device);
  void ReleaseVersion(Version& version);

  // Sets the bytes from the next placement on; at once when nothing is placed.
  void SetBytes(Job& job, uint64_t bytes);
  void SetBytes(Version& version, uint64_t bytes);

  void SetLimit(Device& device, uint64_t full_bytes, double fraction);
  void SetDrain(Device& device, std::optional<DeviceDrain> drain);
  // Sets the end of the device's cool-down; InfinitePast: no cool-down.
  void SetCoolsUntil(Device& device, absl::Time time);

  void Reserve(Job& job, std::vector<DeviceId> devices);
  void Unreserve(Job& job);

  // Reserves devices for a tenant (reservations.h), or ends that. Reserve below
  // is for jobs. Cost is linear in the queue.
  void AddReservation(TenantReservation reservation);
  void RemoveReservation(ReservationId id);
  void BeginReservation(ReservationId id) { state_.reservations_.SetBegun(id); }

  void AddStray(Device& device, AttemptRef attempt, uint64_t bytes);
  void AddStray(Device& device, VersionId version, uint64_t bytes);
  // Returns false when there is no such stray.
  bool RemoveStray(Device& device, AttemptRef attempt);
  bool RemoveStray(Device& device, VersionId version);
  void ClearStrays(Device& device);

  uint64_t NextLoad() { return ++state_.last_load_; }
  uint64_t NextRequest() { return ++state_.last_request_; }
  // Returns true when the caller must ask for a timer at `time`, because no
  // pending timer fires earlier. From then on it counts as pending.
  bool ArmTimer(absl::Time time);
  void TimerHasFired(absl::Time now);
  void SetDraining(bool stop);
  void HoldStarts(bool held) { state_.starts_held_ = held; }

 private:
  void Enqueue(Job& job);
  void Dequeue(Job& job);
  // Takes or gives back a task's place in its array. TakePlace returns false
  // when the job may not enter the queue.
  bool TakePlace(Job& job);
  void LeavePlace(Job& job);
  // Counts a task that has become live or has ended. Call SettleArray
  // afterwards, so that other tasks take places or give them up.
  void NoteTask(const Job& job);
  void SettleArray(JobId array);
  void Requeue(JobId task);
  // Removes and returns the queued jobs whose shapes the reservation may
  // change. PutBack adds them again.
  std::vector<const Job*> TakeOut(const TenantReservation& reservation);
  void PutBack(const std::vector<const Job*>& jobs);
  void FindLimit(Job& job);
  void NoteElastic(Job& job);
  void SetLimitTime(Job& job, absl::Time time);
  void GiveBack(const Job& job, const Rank& rank);
  // Ends the wait of devices whose rank has ended for the job's other ranks.
  void Settle(const Job& job);
  void NoteSaving(const Job& job);

  State& state_;
};

}  // namespace gpupool::scheduler
