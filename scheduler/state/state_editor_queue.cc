// The part of StateEditor that puts jobs into the queue or leaves them outside,
// keeps them under their shapes, and keeps arrays within their limits.
//
// Danger: the queue's indexes use the job's key, shape and group. A field that
// is part of these may change only between Dequeue and Enqueue.
#include <utility>

#include "scheduler/state/state_editor.h"

namespace gpupool::scheduler {

void StateEditor::Enqueue(Job& job) {
  state_.queues_.CountWaiting(job.queue, 1);
  if (!TakePlace(job)) {
    state_.aside_.insert(job.id);
    return;
  }
  job.standing = StandingOf(state_.QueueOf(job), state_.history_, job,
                            absl::InfinitePast());
  state_.waiting_.Add(KeyOf(job), state_.ShapeOf(job), state_.GroupOf(job));
}

void StateEditor::Dequeue(Job& job) {
  state_.queues_.CountWaiting(job.queue, -1);
  if (job.MayStart()) {
    state_.waiting_.Remove(KeyOf(job), state_.ShapeOf(job),
                           state_.GroupOf(job));
  } else {
    state_.aside_.erase(job.id);
  }
  LeavePlace(job);
}

bool StateEditor::TakePlace(Job& job) {
  job.over_limit = false;
  if (!job.MayStartButForLimit()) return false;
  const auto array = state_.arrays_.find(job.array);
  if (array == state_.arrays_.end()) return true;
  job.over_limit = !array->second.HasPlace();
  (job.over_limit ? array->second.standing : array->second.queued)
      .insert(job.id);
  return !job.over_limit;
}

void StateEditor::LeavePlace(Job& job) {
  job.over_limit = false;
  const auto array = state_.arrays_.find(job.array);
  if (array == state_.arrays_.end()) return;
  array->second.queued.erase(job.id);
  array->second.standing.erase(job.id);
}

void StateEditor::NoteTask(const Job& job) {
  if (job.array == JobId()) return;
  if (IsEnded(job.state) && !state_.arrays_.contains(job.array)) return;
  ArrayTasks& tasks = state_.arrays_[job.array];
  tasks.at_once = job.max_at_once;
  tasks.live.erase(job.id);
  if (IsLive(job.state)) tasks.live.insert(job.id);
  if (!IsEnded(job.state)) {
    tasks.unended.insert(job.id);
    return;
  }
  tasks.unended.erase(job.id);
  if (tasks.unended.empty()) state_.arrays_.erase(job.array);
}

// Restores the array's limit. Tasks leave first, so that a place is never given
// twice.
void StateEditor::SettleArray(JobId array) {
  const auto found = state_.arrays_.find(array);
  if (found == state_.arrays_.end()) return;
  const ArrayTasks& tasks = found->second;
  while (const auto task = tasks.ToStandAside()) {
    Job& job = *FindJob(*task);
    job.held_devices.clear();
    Unreserve(job);
    Requeue(*task);
  }
  while (const auto task = tasks.ToQueue()) Requeue(*task);
}

void StateEditor::Requeue(JobId task) {
  Job& job = *FindJob(task);
  Dequeue(job);
  Enqueue(job);
}

void StateEditor::AddReservation(TenantReservation reservation) {
  const std::vector<const Job*> jobs = TakeOut(reservation);
  state_.reservations_.Add(std::move(reservation));
  PutBack(jobs);
}

void StateEditor::RemoveReservation(ReservationId id) {
  const TenantReservation* reservation = state_.reservations_.Find(id);
  if (reservation == nullptr) return;
  const std::vector<const Job*> jobs = TakeOut(*reservation);
  state_.reservations_.Remove(id);
  PutBack(jobs);
}

std::vector<const Job*> StateEditor::TakeOut(
    const TenantReservation& reservation) {
  std::vector<const Job*> jobs;
  for (const QueueKey& key : state_.waiting_.all()) {
    const Job* job = FindJob(key.job);
    if (reservation.Takes(job->tenant)) jobs.push_back(job);
  }
  for (const Job* job : jobs) {
    state_.waiting_.Remove(KeyOf(*job), state_.ShapeOf(*job),
                           state_.GroupOf(*job));
  }
  return jobs;
}

void StateEditor::PutBack(const std::vector<const Job*>& jobs) {
  for (const Job* job : jobs) {
    state_.waiting_.Add(KeyOf(*job), state_.ShapeOf(*job),
                        state_.GroupOf(*job));
  }
}

}  // namespace gpupool::scheduler
