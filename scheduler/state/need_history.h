// Which needs are typical, learned from the jobs that were submitted: what the
// next job will probably ask for, so that it finds room (fragmentation.h).
//
// Memory is bounded: when there are more than kMostNeeds different ones all
// counts are halved and those that came once are forgotten. So old habits fade,
// too.
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

// What a job asks for.
struct JobNeed {
  std::string wanted_device;  // as in device_choice.h
  uint32_t devices = 1;
  uint64_t bytes = 0;  // on each
  HostNeed host;       // for each
  friend auto operator<=>(const JobNeed&, const JobNeed&) = default;
};

struct TypicalNeed {
  JobNeed need;
  double share = 0;  // of all jobs; those of all typical needs sum to 1
};

class NeedHistory {
 public:
  static constexpr size_t kMostNeeds = 1024;
  // The most frequent needs that make up so much of all jobs are typical, and
  // not more than so many: they are looked at for every placement.
  static constexpr double kCovered = 0.95;
  static constexpr size_t kMostTypical = 64;

  // Renews typical() when a tenth more has been learned since. Cost:
  // logarithmic, and kMostNeeds when renewed.
  void Add(const JobNeed& need);

  // The most frequent one first. Empty before the first job.
  absl::Span<const TypicalNeed> typical() const { return typical_; }

 private:
  void Halve();
  void Renew();

  absl::btree_map<JobNeed, uint64_t> counts_;
  uint64_t total_ = 0;
  uint64_t renewed_at_ = 0;  // total_ then
  std::vector<TypicalNeed> typical_;
};

}  // namespace gpupool::scheduler
