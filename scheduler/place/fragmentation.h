// Fragmentation: how much of a machine's free memory the next job can probably
// not use. New jobs go where fragmentation grows least: fragmentation gradient
// descent (Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
// Workloads with Fragmentation Gradient Descent", USENIX ATC 2023).
//
// A site is the set of devices of one kind on one machine. The sites of a
// machine share its host. For one typical need (need_history.h) the fragments
// of a site are
//   * all its free bytes, if the site cannot run the need
//   * otherwise the free bytes of devices with too few for one rank of it
//
// Fragmentation is the mean over the typical needs of the site's kind, weighted
// by their frequency.
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
  std::vector<uint64_t> free;  // free bytes of each device
};

// Returns the expected bytes of the site that the next job cannot use.
double Fragmentation(const SiteSpace& site, const Machine& machine,
                     absl::Span<const TypicalNeed> typical);

struct SiteChoice {
  std::vector<size_t> devices;  // indexes into SiteSpace::free; best fit first
  double growth = 0;            // growth of the machine's fragmentation
};

// Need that is to be placed on one site.
struct SiteNeed {
  uint32_t devices = 1;  // number of devices, at least one
  uint64_t bytes = 0;    // bytes on each device
  HostNeed host = {};    // host need of each device
};

// Returns the devices of sites[at] where the fragmentation of the machine's
// sites grows least.
//   * One rank: the best device; of equally good ones the one where the least
//     is left.
//   * Several ranks: the fullest devices that have room.
//
// Takes only devices in `usable`: indexes, at least need.devices of them, each
// with enough free bytes. Cost is typical needs times devices.
SiteChoice LeastFragmenting(absl::Span<const SiteSpace> sites, size_t at,
                            const Machine& machine, const SiteNeed& need,
                            absl::Span<const size_t> usable,
                            absl::Span<const TypicalNeed> typical);

}  // namespace gpupool::scheduler
