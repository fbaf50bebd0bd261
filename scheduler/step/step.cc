#include "scheduler/step/step.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "scheduler/step/step_context.h"

namespace gpupool::scheduler {

StepResult Step(State& state, const Event& event, absl::Time now) {
  StepContext context(state, now);
  context.edit.SetNow(now);
  // All that has ended by now must be gone before the event is applied. The
  // consequences follow in this order: ended jobs release their dependents,
  // beginning reservations stop others, then whatever fits is started. The
  // timers come last, from the state that results.
  EndCooldowns(context);
  EndReservations(context);
  std::visit([&](const auto& concrete) { Apply(context, concrete); }, event);
  SettleDependents(context);
  EnforceReservations(context);
  Schedule(context);
  WatchLimits(context);
  WatchReservations(context);
  return std::move(context.result);
}

absl::Duration Backoff(absl::Duration first, uint32_t failures) {
  const absl::Duration start =
      std::clamp(first, absl::ZeroDuration(), kLongestBackoff);
  const uint32_t doublings = std::min(failures > 0 ? failures - 1 : 0, 30u);
  return std::min(start * (int64_t{1} << doublings), kLongestBackoff);
}

}  // namespace gpupool::scheduler
