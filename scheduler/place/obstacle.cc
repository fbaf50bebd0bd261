#include "scheduler/place/obstacle.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "scheduler/place/placement_policy.h"

namespace gpupool::scheduler {
namespace {

// Returns "job 7" for the first job on the device for which `has` is true, or
// "".
template <typename Has>
std::string JobText(const State& state, const Device& device, Has has) {
  const auto found = absl::c_find_if(
      device.jobs, [&](JobId id) { return has(state.jobs().at(id)); });
  if (found == device.jobs.end()) return "";
  return absl::StrCat("job ", found->value());
}

std::string ReservedObstacleText(const State& state,
                                 const TenantReservation& reservation) {
  return absl::StrCat(ReservedText("it", reservation, state.now()),
                      reservation.start > state.now()
                          ? ": the job would have to go too soon"
                          : "");
}

std::string BytesText(const State& state, const Device& device,
                      const Need& need, uint64_t missing) {
  if (need.demands.exclusive) return "not empty, and the job shares no device";
  const std::string taker = JobText(
      state, device, [](const Job& job) { return job.demands.exclusive; });
  if (!taker.empty()) return absl::StrCat(taker, " has it to itself");
  return absl::StrCat("lacks ", FormatBytes(missing));
}

}  // namespace

std::string FaultsText(const Device& device) {
  if (device.faults <= 1) return "a fault";
  return absl::StrCat(device.faults, " faults in a row");
}

std::string ObstacleText(const State& state, const Device& device,
                         const Need& need, const Obstacle& obstacle) {
  switch (obstacle.kind) {
    case ObstacleKind::kNotWanted:
      return "it wants other devices, or its queue may not use this one";
    case ObstacleKind::kTooSmall:
      return absl::StrCat("too small: it has ", FormatBytes(obstacle.bytes),
                          " in all");
    case ObstacleKind::kHeldBack:
      return absl::StrCat("its memory fraction of ", device.fraction,
                          " leaves only ", FormatBytes(obstacle.bytes));
    case ObstacleKind::kNotReady:
      return "its worker is not ready";
    case ObstacleKind::kDrained:
      return absl::StrCat("drained", device.drain->reason.empty() ? "" : ": ",
                          device.drain->reason);
    case ObstacleKind::kPromised:
      return absl::StrCat("others make room here for job ",
                          device.reserved_for->value());
    case ObstacleKind::kReserved:
      return ReservedObstacleText(state, *obstacle.reservation);
    case ObstacleKind::kSettling:
      return "a job on several devices is just ending";
    case ObstacleKind::kHasGang:
      return absl::StrCat(
          JobText(state, device,
                  [](const Job& job) { return job.device_count > 1; }),
          " runs here on several devices, too");
    case ObstacleKind::kCools:
      return absl::StrCat("cools down for another ",
                          FormatSpan(device.cools_until - state.now()),
                          " after ", FaultsText(device), ": ",
                          device.fault_text);
    case ObstacleKind::kLacksBytes:
      return BytesText(state, device, need, obstacle.bytes);
    case ObstacleKind::kLacksHost:
      return absl::StrCat("its machine cannot spare ",
                          HostText(need.demands.host));
  }
  return "";
}

}  // namespace gpupool::scheduler
