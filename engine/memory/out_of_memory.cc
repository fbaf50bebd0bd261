#include "engine/memory/out_of_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gpupool::engine {
namespace {

constexpr size_t kOwnersInError = 5;

std::string State(const MemoryStatistics& now) {
  const uint64_t free = now.limit_bytes > now.allocated_bytes
                            ? now.limit_bytes - now.allocated_bytes
                            : 0;
  return absl::StrFormat(
      " Limit %u, allocated %u, free %u bytes; reserved %u, largest free block "
      "%u bytes. Fragmentation: internal %.1f %%, external %.1f %%.",
      now.limit_bytes, now.allocated_bytes, free, now.reserved_bytes,
      now.largest_free_bytes, 100 * now.internal_fragmentation(),
      100 * now.external_fragmentation());
}

std::string HeldBy(const std::vector<OwnerUsage>& owners) {
  if (owners.empty()) return " Nobody holds anything.";
  std::string text = " Held by";
  const size_t listed = std::min(owners.size(), kOwnersInError);
  for (size_t i = 0; i < listed; ++i) {
    absl::StrAppend(&text, i == 0 ? " " : ", ", owners[i].label, " ",
                    owners[i].bytes);
  }
  if (owners.size() > listed) {
    absl::StrAppend(&text, " and ", owners.size() - listed, " more");
  }
  return text + ".";
}

// Returns the fewest holders whose end would free `lack` bytes; empty when all
// of them together are not enough.
std::string HoldersToEnd(const std::vector<OwnerHolder>& holders,
                         uint64_t lack) {
  // Prefers the smallest holder that is enough. Holders come largest first.
  const auto just_enough = std::find_if(
      holders.rbegin(), holders.rend(),
      [lack](const OwnerHolder& holder) { return holder.bytes >= lack; });
  if (just_enough != holders.rend()) {
    return absl::StrCat("end or unload ", just_enough->name, " (frees ",
                        just_enough->bytes, " bytes)");
  }
  // No single holder is enough, so the largest are added up.
  uint64_t freed = 0;
  std::string names;
  for (const OwnerHolder& holder : holders) {
    absl::StrAppend(&names, names.empty() ? "" : " and ", holder.name);
    freed += holder.bytes;
    if (freed >= lack) {
      return absl::StrCat("end or unload ", names, " (frees ", freed,
                          " bytes)");
    }
  }
  return "";
}

// Returns the sentence about what would help.
std::string Remedies(const OutOfMemoryFacts& facts) {
  std::vector<std::string> remedies;
  if (facts.room_bytes > 0 && facts.room_bytes < facts.bytes) {
    const double share = 100.0 * static_cast<double>(facts.room_bytes) /
                         static_cast<double>(facts.bytes);
    remedies.push_back(absl::StrFormat(
        "ask for at most %u bytes, %.0f %% of this (a smaller batch or model)",
        facts.room_bytes, share));
  } else {
    remedies.push_back("use a smaller batch or model");
  }
  const uint64_t lack =
      facts.bytes > facts.room_bytes ? facts.bytes - facts.room_bytes : 0;
  if (!facts.limited_holder.empty()) {
    remedies.push_back(absl::StrCat("raise the limit of ", facts.limited_holder,
                                    " by ", lack, " bytes"));
  } else if (lack > 0) {
    const std::string end = HoldersToEnd(facts.holders, lack);
    if (!end.empty()) remedies.push_back(end);
    remedies.push_back(
        absl::StrCat("raise the device's limit by ", lack, " bytes"));
    // The device has fewer bytes than its limit: other programs hold them.
  } else {
    remedies.push_back(
        "end other programs that use this device, whose memory is not "
        "counted here");
  }
  std::string text = " Remedies:";
  for (size_t i = 0; i < remedies.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? " " : "; or ", remedies[i]);
  }
  return text + ".";
}

}  // namespace

absl::Status OutOfMemoryError(const OutOfMemoryFacts& facts) {
  return absl::ResourceExhaustedError(absl::StrCat(
      facts.device, " has no ", facts.bytes, " bytes for ", facts.owner, ": ",
      facts.reason, ".", State(facts.statistics),
      HeldBy(facts.statistics.owners), Remedies(facts)));
}

}  // namespace gpupool::engine
