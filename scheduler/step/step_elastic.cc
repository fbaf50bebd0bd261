// Steps that give elastic jobs more devices and take some back.
#include "scheduler/order/queue_policy.h"
#include "scheduler/step/step_context.h"
#include "scheduler/yield/elastic_policy.h"

namespace gpupool::scheduler {
namespace {

void CarryOutResize(StepContext& context, Job& job, const Room& room) {
  for (const Stop& stop : room.stops) {
    Job& other = *context.edit.FindJob(stop.job);
    Preempt(context, other,
            {.job = other.id,
             .gives_way_to = job.id,
             .reason = PreemptionReason::kResize});
  }
  context.edit.Reserve(job, room.devices);
}

bool ShrinkOnce(StepContext& context, const absl::btree_set<DeviceId>& held) {
  for (const Job* first : Candidates(context.state)) {
    if (RoomIsComing(context.state, *first)) continue;
    const auto room = RoomByShrinking(context.state, *first, held, context.now);
    if (!room) continue;
    CarryOutResize(context, *context.edit.FindJob(first->id), *room);
    return true;
  }
  return false;
}

void GiveUpReservations(StepContext& context) {
  const absl::btree_set<JobId> reserving = context.state.reserving();
  for (JobId id : reserving) {
    Job& job = *context.edit.FindJob(id);
    if (!RoomIsComing(context.state, job)) context.edit.Unreserve(job);
  }
}

// Asks for a timer when the next job that could shrink has had its minimum run.
void WatchMinRun(StepContext& context) {
  absl::Time next = absl::InfiniteFuture();
  for (JobId id : context.state.elastic()) {
    const Job& job = context.state.jobs().at(id);
    if (job.state != JobState::kRunning || SpareDevices(job) == 0) continue;
    const absl::Time end = job.run_since + context.state.QueueOf(job).min_run;
    if (end > context.now) next = std::min(next, end);
  }
  if (next == absl::InfiniteFuture() || !context.edit.ArmTimer(next)) return;
  context.Act(SetTimer{next});
}

// Returns true while a job is being resized. Jobs grow one by one, since each
// look must see the devices that the last one took.
bool SomeoneIsResized(const State& state) {
  for (JobId id : state.elastic()) {
    if (state.jobs().at(id).stop_sent == StopReason::kResized) return true;
  }
  return false;
}

}  // namespace

void ShrinkElastic(StepContext& context,
                   const absl::btree_set<DeviceId>& held) {
  if (!context.state.preempts()) GiveUpReservations(context);
  if (context.state.elastic().empty() || context.state.queue().empty()) return;
  while (ShrinkOnce(context, held)) {
  }
  WatchMinRun(context);
}

void GrowElastic(StepContext& context, const absl::btree_set<DeviceId>& held) {
  if (context.state.elastic().empty()) return;
  const bool nobody_waits =
      context.state.queue().empty() && !SomeoneIsResized(context.state);
  const absl::btree_set<JobId> elastic = context.state.elastic();
  for (JobId id : elastic) {
    Job& job = *context.edit.FindJob(id);
    if (!nobody_waits || !CouldGrowTo(context.state, job, held)) {
      job.may_grow_since = absl::InfiniteFuture();
      continue;
    }
    job.may_grow_since = std::min(job.may_grow_since, context.now);
    const absl::Time when = GrowTime(context.state, job);
    if (when <= context.now) {
      AskToStop(context, job, StopReason::kResized);
      return;
    }
    if (context.edit.ArmTimer(when)) context.Act(SetTimer{when});
  }
}

}  // namespace gpupool::scheduler
