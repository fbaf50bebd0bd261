// What people are told about places.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/placement_policy.h"
#include "scheduler/queues.h"

namespace gpupool::scheduler {

std::string DevicesText(const Need& need) {
  const bool any = need.wanted_device.empty();
  if (need.devices == 1) {
    return absl::StrCat("a ", need.wanted_device, any ? "" : " ", "device");
  }
  if (any) return absl::StrCat(need.devices, " devices of one kind");
  return absl::StrCat(need.devices, " ", need.wanted_device, " devices");
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

namespace {

// "; queue 'short' may use cuda:0, cuda:1"; empty where that is all.
std::string OfQueueText(const Need& need) {
  if (need.queue == nullptr || need.queue->queue.devices.empty()) return "";
  return absl::StrCat("; queue '", need.queue->queue.name, "' may use ",
                      DevicesText(need.queue->queue));
}

std::string TooMuchText(const Need& need, const Placement& placement) {
  if (placement.lacks_host) {
    return absl::StrCat(
        "never fits: needs ", HostText(need.host),
        need.devices > 1
            ? absl::StrCat(" for each of ", need.devices, " devices")
            : "",
        "; no machine has so much");
  }
  const std::string bytes = FormatBytes(need.bytes);
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
  const std::string kind =
      need.wanted_device.empty() ? "" : absl::StrCat(need.wanted_device, " ");
  if (placement.largest_limit == 0) {
    return absl::StrCat("never fits: needs ", bytes, ", but there is no ", kind,
                        "device");
  }
  return absl::StrCat("never fits: needs ", bytes, ", the largest ", kind,
                      "device has ", FormatBytes(placement.largest_limit));
}

}  // namespace

std::string NeverFitsText(const Need& need, const Placement& placement) {
  return absl::StrCat(TooMuchText(need, placement), OfQueueText(need));
}

}  // namespace gpupool::scheduler
