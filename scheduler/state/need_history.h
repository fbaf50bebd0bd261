// Learns typical needs from submitted jobs, as a forecast of what the next job
// will ask for (fragmentation.h).
//
// Memory is bounded: above kMostNeeds different needs all counts are halved and
// those that came once are forgotten. So old habits fade, too.
//
// Thread-safety: a value; as any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/types/span.h"
#include "scheduler/state/host.h"

namespace gpupool::scheduler {

// Need of a job.
struct JobNeed {
  std::string wanted_device;  // as in device_choice.h
  uint32_t devices = 1;
  uint64_t bytes = 0;  // bytes on each device
  HostNeed host;       // host need of each device
  friend auto operator<=>(const JobNeed&, const JobNeed&) = default;
};

struct TypicalNeed {
  JobNeed need;
  double share = 0;  // share of all jobs; typical shares sum to 1
};

class NeedHistory {
 public:
  static constexpr size_t kMostNeeds = 1024;
  // The typical needs are the most frequent ones that make up kCovered of all
  // jobs, at most kMostTypical. The limit bounds the cost of a placement, which
  // looks at each of them.
  static constexpr double kCovered = 0.95;
  static constexpr size_t kMostTypical = 64;

  // Counts the need. Renews typical() once a tenth more needs are known. Cost
  // is logarithmic, and linear in kMostNeeds when it renews.
  void Add(const JobNeed& need);

  // Returns the typical needs, the most frequent first. Empty before the first
  // job.
  absl::Span<const TypicalNeed> typical() const { return typical_; }

 private:
  void Halve();
  void Renew();

  absl::btree_map<JobNeed, uint64_t> counts_;
  uint64_t total_ = 0;
  uint64_t renewed_at_ = 0;  // total_ at the last renewal
  std::vector<TypicalNeed> typical_;
};

}  // namespace gpupool::scheduler
