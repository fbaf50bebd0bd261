// Texts about places for users.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/state/queues.h"

namespace gpupool::scheduler {

namespace {

// Returns "cuda ", or "" when no kind was asked for.
std::string KindText(const Need& need) {
  if (IsOpenChoice(need.wanted_device)) return "";
  return absl::StrCat(need.wanted_device, " ");
}

}  // namespace

std::string DevicesText(const Need& need) {
  const std::string kind = KindText(need);
  const absl::string_view whole = need.demands.exclusive ? "whole " : "";
  if (need.devices == 1 && NamesDevice(need.wanted_device)) {
    return absl::StrCat(need.demands.exclusive ? "all of " : "",
                        need.wanted_device);
  }
  if (need.devices == 1) return absl::StrCat("a ", whole, kind, "device");
  return absl::StrCat(need.devices, " ", whole, kind, "devices",
                      kind.empty() ? " of one kind" : "");
}

std::string HeldBackText(const Placement& placement) {
  if (placement.held_back == nullptr) return "";
  const Device& device = *placement.held_back;
  return absl::StrCat("; a memory fraction of ", device.fraction,
                      " keeps it off ", device.name, ", which has ",
                      FormatBytes(device.full_bytes),
                      ": raise it with `gpupool devices fraction`");
}

std::string DrainedText(const Placement& placement) {
  if (placement.drained == nullptr) return "";
  const Device& device = *placement.drained;
  const std::string& reason = device.drain->reason;
  return absl::StrCat("; ", device.name, " is drained",
                      reason.empty() ? "" : absl::StrCat(" (", reason, ")"));
}

std::string TakenText(const State& state, const Need& need) {
  for (const auto& [id, device] : state.devices()) {
    if (!DeviceMatches(device, need)) continue;
    for (JobId job : device.jobs) {
      if (job == need.job || !state.jobs().at(job).demands.exclusive) continue;
      return absl::StrCat("; job ", job.value(), " has ", device.name,
                          " to itself");
    }
  }
  return "";
}

namespace {

// Returns "; queue 'short' may use cuda:0, cuda:1", or "" when it may use all.
std::string OfQueueText(const Need& need) {
  if (need.queue == nullptr || need.queue->queue.devices.empty()) return "";
  return absl::StrCat("; queue '", need.queue->queue.name, "' may use ",
                      DevicesText(need.queue->queue));
}

// Returns why the need never fits: host room, number of devices or bytes.
std::string TooMuchText(const Need& need, const Placement& placement) {
  if (placement.lacks_host) {
    return absl::StrCat(
        "never fits: needs ", HostText(need.demands.host),
        need.devices > 1
            ? absl::StrCat(" for each of ", need.devices, " devices")
            : "",
        "; no machine has so much");
  }
  const auto [bytes, largest] =
      FormatBytePair(need.bytes, placement.largest_limit);
  if (need.devices > 1) {
    const std::string needs = absl::StrCat(
        "never fits: needs ", DevicesText(need), " with ", bytes, " each");
    if (placement.kinds.empty()) return absl::StrCat(needs, "; there is none");
    return absl::StrCat(
        needs, "; large enough are ",
        absl::StrJoin(placement.kinds, " and ",
                      [](std::string* text, const KindCount& count) {
                        absl::StrAppend(text, count.large_enough, " of ",
                                        count.devices, " ", count.kind,
                                        " devices");
                      }));
  }
  if (NamesDevice(need.wanted_device)) {
    const std::string device(need.wanted_device);
    return placement.kinds.empty()
               ? absl::StrCat("never fits: the pool has no device ", device,
                              " for it")
               : absl::StrCat("never fits: needs ", bytes, ", ", device,
                              " has ", largest);
  }
  const std::string kind = KindText(need);
  if (placement.largest_limit == 0) {
    return absl::StrCat("never fits: needs ", bytes, ", but there is no ", kind,
                        "device");
  }
  return absl::StrCat("never fits: needs ", bytes, ", the largest ", kind,
                      "device has ", largest);
}

// Returns "; cpu:0 is large enough, ...", or "" when no CPU device is.
std::string SparedText(const Placement& placement) {
  if (placement.spared == nullptr) return "";
  return absl::StrCat("; ", placement.spared->name,
                      " is large enough, and CPU devices beside accelerators "
                      "are for what asks for them: `device: cpu`");
}

}  // namespace

std::string NeverFitsText(const Need& need, const Placement& placement) {
  return absl::StrCat(TooMuchText(need, placement), OfQueueText(need),
                      SparedText(placement));
}

}  // namespace gpupool::scheduler
