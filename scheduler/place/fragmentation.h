// How much of what is free on a machine the next job can probably not use, and
// where something is placed so that this grows least: fragmentation gradient
// descent (Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
// Workloads with Fragmentation Gradient Descent", USENIX ATC 2023).
//
// For one typical need (need_history.h), all free bytes of a site that cannot
// run it are fragments, and of a site that can those of devices with too few
// for one rank of it. A site is the devices of one kind on a machine; the sites
// of a machine share its host. Fragmentation is the mean over the typical needs
// of the site's kind, weighted by how often they come.
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "scheduler/state/host.h"
#include "scheduler/state/need_history.h"

namespace gpupool::scheduler {

struct SiteSpace {
  absl::string_view kind;
  std::vector<uint64_t> free;  // bytes of each device
};

// Expected bytes of the site that the next job cannot use.
double Fragmentation(const SiteSpace& site, const Machine& machine,
                     absl::Span<const TypicalNeed> typical);

struct SiteChoice {
  std::vector<size_t> devices;  // indexes into SiteSpace::free; best fit first
  double growth = 0;            // of the fragmentation of all the sites
};

// What is asked of one site.
struct SiteNeed {
  uint32_t devices = 1;  // at least one
  uint64_t bytes = 0;    // on each
  HostNeed host = {};    // for each
};

// The devices of sites[at] with the least growth of the fragmentation of the
// machine's sites: for one rank the best device, where several do as well the
// one where the least is left; for several ranks the fullest that have room.
// Only devices of `usable` (indexes, at least need.devices, each with the
// bytes) are taken. Cost: typical needs times devices.
SiteChoice LeastFragmenting(absl::Span<const SiteSpace> sites, size_t at,
                            const Machine& machine, const SiteNeed& need,
                            absl::Span<const size_t> usable,
                            absl::Span<const TypicalNeed> typical);

}  // namespace gpupool::scheduler
