// The fragmentation measure of Weng et al. (ATC 2023), see fragmentation.h.
#include "scheduler/place/fragmentation.h"

#include <algorithm>
#include <numeric>

#include "scheduler/state/device_choice.h"

namespace gpupool::scheduler {
namespace {

bool Matches(const JobNeed& need, const SiteSpace& site) {
  return TakesKind(need.wanted_device, site.kind);
}

// Returns the machine after the need has been placed on it.
Machine Taken(Machine machine, const SiteNeed& need) {
  machine.used.milli_cores += need.devices * need.host.milli_cores;
  machine.used.bytes += need.devices * need.host.bytes;
  return machine;
}

// Sums over a site's devices for one typical need. Kept up to date by adding
// and removing single devices.
struct Tally {
  uint32_t large_enough = 0;
  uint64_t too_small = 0;  // bytes on devices that are too small
  uint64_t total = 0;      // bytes on all devices

  void Add(uint64_t free, uint64_t bytes) {
    total += free;
    if (free >= bytes) {
      ++large_enough;
    } else {
      too_small += free;
    }
  }
  void Remove(uint64_t free, uint64_t bytes) {
    total -= free;
    if (free >= bytes) {
      --large_enough;
    } else {
      too_small -= free;
    }
  }
  // Returns the bytes that the need cannot use.
  double Lost(const JobNeed& need, const Machine& machine) const {
    const bool fits = large_enough >= need.devices &&
                      machine.Holds(need.host) >= need.devices;
    return static_cast<double>(fits ? too_small : total);
  }
};

Tally TallyOf(const SiteSpace& site, uint64_t bytes) {
  Tally tally;
  for (const uint64_t free : site.free) tally.Add(free, bytes);
  return tally;
}

}  // namespace

double Fragmentation(const SiteSpace& site, const Machine& machine,
                     absl::Span<const TypicalNeed> typical) {
  double fragmentation = 0;
  for (const auto& [need, share] : typical) {
    if (!Matches(need, site)) continue;
    const Tally tally = TallyOf(site, need.bytes);
    fragmentation += share * tally.Lost(need, machine);
  }
  return fragmentation;
}

SiteChoice LeastFragmenting(absl::Span<const SiteSpace> sites, size_t at,
                            const Machine& machine, const SiteNeed& need,
                            absl::Span<const size_t> usable,
                            absl::Span<const TypicalNeed> typical) {
  const SiteSpace& site = sites[at];
  const Machine after = Taken(machine, need);
  std::vector<size_t> fullest(usable.begin(), usable.end());
  std::stable_sort(fullest.begin(), fullest.end(), [&](size_t a, size_t b) {
    return site.free[a] < site.free[b];
  });
  // Candidates are runs of need.devices devices of `fullest`, by first index.
  std::vector<size_t> firsts = {0};
  if (need.devices == 1) {
    for (size_t i = 1; i < fullest.size(); ++i) {
      // Devices with the same free bytes give the same result.
      if (site.free[fullest[i]] != site.free[fullest[i - 1]]) {
        firsts.push_back(i);
      }
    }
  }
  std::vector<double> growths(firsts.size());
  for (const auto& [typical_need, share] : typical) {
    if (!Matches(typical_need, site)) continue;
    const uint64_t bytes = typical_need.bytes;
    const Tally now = TallyOf(site, bytes);
    const double lost = now.Lost(typical_need, machine);
    for (size_t i = 0; i < firsts.size(); ++i) {
      Tally then = now;
      for (uint32_t rank = 0; rank < need.devices; ++rank) {
        const uint64_t free = site.free[fullest[firsts[i] + rank]];
        then.Remove(free, bytes);
        then.Add(free - need.bytes, bytes);
      }
      growths[i] += share * (then.Lost(typical_need, after) - lost);
    }
  }
  // The host need also shrinks what the machine's other sites can run.
  double beside = 0;
  for (size_t other = 0; other < sites.size() && !need.host.none(); ++other) {
    if (other == at) continue;
    beside += Fragmentation(sites[other], after, typical) -
              Fragmentation(sites[other], machine, typical);
  }
  const auto best = static_cast<size_t>(
      std::min_element(growths.begin(), growths.end()) - growths.begin());
  const auto first = fullest.begin() + static_cast<ptrdiff_t>(firsts[best]);
  return {{first, first + need.devices}, growths[best] + beside};
}

}  // namespace gpupool::scheduler
