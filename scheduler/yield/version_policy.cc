#include "scheduler/yield/version_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gpupool::scheduler {

VersionMoves ChooseMoves(const State& state, absl::Time now) {
  std::vector<const Version*> waiting;
  for (const auto& [id, version] : state.versions()) {
    if (version.state == VersionState::kLoading && !version.device &&
        !version.suspected && version.retry_time <= now) {
      waiting.push_back(&version);
    }
  }
  // The oldest request is served first.
  std::sort(waiting.begin(), waiting.end(),
            [](const Version* a, const Version* b) {
              return a->request < b->request;
            });
  VersionMoves result;
  for (const Version* version : waiting) {
    const Need need = NeedOf(state, *version);
    VersionMove& move = result.moves.emplace_back(
        VersionMove{version->id, Place(state, need, result.holds), {}});
    if (move.placement.fit != Fit::kNotNow) continue;
    move.room = RoomForVersion(state, *version, result.holds, now);
    if (move.room) {
      // Later versions in this list may not take room that was made for an
      // earlier one.
      result.holds.insert(move.room->device);
    } else {
      result.holds.merge(DevicesToHold(state, need));
    }
  }
  return result;
}

std::vector<VersionId> ReplacedBy(const State& state, const Version& ready) {
  std::vector<VersionId> replaced;
  for (const auto& [id, other] : state.versions()) {
    const bool wanted = other.state == VersionState::kLoading ||
                        other.state == VersionState::kReady;
    if (wanted && other.model == ready.model && other.number < ready.number &&
        // A version that a user asked for after this one stays, even if its
        // number is lower.
        other.request < ready.request) {
      replaced.push_back(id);
    }
  }
  return replaced;
}

std::string VersionWaitText(const State& state, const VersionMove& move) {
  const Placement& placement = move.placement;
  const Version& version = state.versions().at(move.version);
  const Need need = NeedOf(state, version);
  const auto [bytes, free] =
      FormatBytePair(version.bytes, placement.largest_free);
  if (move.room) {
    return absl::StrCat("waits for ", bytes, " on ",
                        state.devices().at(move.room->device).name,
                        ", where training makes room");
  }
  if (!placement.any_ready) {
    return absl::StrCat("waits for ", bytes, " on ", DevicesText(need),
                        placement.drained != nullptr ? DrainedText(placement)
                        : NamesDevice(need.wanted_device)
                            ? ": its worker is starting"
                            : ": the workers are starting");
  }
  return absl::StrCat("waits for ", bytes, " on ", DevicesText(need),
                      NamesDevice(need.wanted_device)
                          ? "; free there is "
                          : "; the largest free is ",
                      free, TakenText(state, need),
                      placement.held_back == nullptr
                          ? "; unload another version or wait for a job to end"
                          : HeldBackText(placement),
                      DrainedText(placement));
}

}  // namespace gpupool::scheduler
