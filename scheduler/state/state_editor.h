// The ways in which Step() may change a State. Each keeps the indexes and the
// byte counters in line, so that the handlers speak only about meaning.
//
// Thread-safety: as State. The editor refers to the state; it owns nothing.
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

  // Time goes on; it never goes back.
  void SetNow(absl::Time now) { state_.now_ = std::max(state_.now_, now); }

  // Null when unknown. Fields with an index (state, ranks, wake_time, bytes,
  // priority) must be changed through the functions below.
  Job* FindJob(JobId id);
  Version* FindVersion(VersionId id);
  Device* FindDevice(DeviceId id);

  Job& AddJob(Job job);
  Version& AddVersion(Version version);
  void RemoveJob(JobId id);
  void RemoveVersion(VersionId id);

  // With how many devices it starts, or would.
  void SetDeviceCount(Job& job, uint32_t count);
  // Gives up held and reserved devices when it is held.
  void SetHeld(Job& job, bool held);
  // The job waits for that one no longer.
  void RemovePrerequisite(Job& job, JobId prerequisite);
  // Nothing more happens at its limits until its state changes.
  void ForgetLimit(Job& job);

  // Keeps the queue in line. Leaving QUEUED gives up held and reserved devices.
  void SetJobState(Job& job, JobState state);
  // The job's time runs from `now` on, or no longer. Calling twice is a no-op.
  void StartClock(Job& job, absl::Time now);
  void StopClock(Job& job, absl::Time now);
  // The standing of a running job may have risen by now: looks for the next
  // time.
  void NoteStandingChange(Job& job, absl::Time now);
  // The job ended by itself after its time.
  void LearnRunTime(const Job& job);
  // One that needs so much was submitted.
  void LearnNeed(const Job& job);
  void SetExpectedRun(Job& job, absl::Duration expected, absl::Time now);
  void SetWakeTime(Job& job, absl::Time time);
  void AddRestartCost(absl::Duration cost) { state_.restart_cost_.Add(cost); }

  // Book and give back planned bytes. Releasing what is not placed is a no-op.
  // A job is booked on the devices of those ranks that have not ended.
  void PlaceJob(Job& job, std::vector<Rank> ranks);
  void EndRank(Job& job, DeviceId device, Outcome outcome);
  void SetMissing(Job& job, DeviceId device, bool missing);
  void ReleaseJob(Job& job);
  void SetUnderLoad(Version& version, bool under_load);
  void PlaceVersion(Version& version, DeviceId device);
  void ReleaseVersion(Version& version);

  // Of the next placement, where it is placed now.
  void SetBytes(Job& job, uint64_t bytes);
  void SetBytes(Version& version, uint64_t bytes);

  void SetLimit(Device& device, uint64_t full_bytes, double fraction);
  void SetDrain(Device& device, std::optional<DeviceDrain> drain);
  // InfinitePast: it does not cool down any longer.
  void SetCoolsUntil(Device& device, absl::Time time);

  void Reserve(Job& job, std::vector<DeviceId> devices);
  void Unreserve(Job& job);

  // Devices for a tenant (reservations.h), which are other ones than those that
  // are reserved for a job. Linear in the queue.
  void AddReservation(TenantReservation reservation);
  void RemoveReservation(ReservationId id);
  void BeginReservation(ReservationId id) { state_.reservations_.SetBegun(id); }

  void AddStray(Device& device, AttemptRef attempt, uint64_t bytes);
  void AddStray(Device& device, VersionId version, uint64_t bytes);
  // False when there is no such stray.
  bool RemoveStray(Device& device, AttemptRef attempt);
  bool RemoveStray(Device& device, VersionId version);
  void ClearStrays(Device& device);

  uint64_t NextLoad() { return ++state_.last_load_; }
  uint64_t NextRequest() { return ++state_.last_request_; }
  // True when a timer at `time` must be asked for: none is pending that fires
  // earlier. Then it counts as pending.
  bool ArmTimer(absl::Time time);
  void TimerHasFired(absl::Time now);
  void SetDraining(bool stop);
  void HoldStarts(bool held) { state_.starts_held_ = held; }

 private:
  void Enqueue(Job& job);
  void Dequeue(Job& job);
  // The part of these that is about arrays: whether there is a place for it.
  bool TakePlace(Job& job);
  void LeavePlace(Job& job);
  // The task is live, or has ended; then others take places or give them up.
  void NoteTask(const Job& job);
  void SettleArray(JobId array);
  void Requeue(JobId task);
  // Jobs in the queue whose shapes a reservation for their tenant may change:
  // out of it, and back.
  std::vector<const Job*> TakeOut(const TenantReservation& reservation);
  void PutBack(const std::vector<const Job*>& jobs);
  void FindLimit(Job& job);
  void NoteElastic(Job& job);
  void SetLimitTime(Job& job, absl::Time time);
  void GiveBack(const Job& job, const Rank& rank);
  // Where its ranks have ended: no device waits for the others any more.
  void Settle(const Job& job);
  void NoteSaving(const Job& job);

  State& state_;
};

}  // namespace gpupool::scheduler
