// Looks at every served version about once a second, decides whether its
// requests wait for too long (scheduler/serve/load_policy.h), and reports
// changes.
//
// Thread-safety: none; one thread calls Look.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "scheduler/serve/load_policy.h"
#include "server/serving/model_registry.h"
#include "server/serving/statistics.h"

namespace gpupool::server {

class LoadMonitor {
 public:
  // Interval at which Look should be called.
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  // `options.target` comes on top of a version's own max_queue_delay. `changed`
  // must be short.
  LoadMonitor(const scheduler::LoadOptions& options,
              std::function<void(uint64_t version, bool under_load)> changed)
      : options_(options), changed_(std::move(changed)) {}

  // Looks at `versions`, which must be all that are served now.
  void Look(const std::vector<VersionHandle>& versions, absl::Time now);

 private:
  struct Seen {
    scheduler::LoadGauge gauge;
    absl::Time time;
    StageSum queue;
    uint64_t answered = 0;
  };

  void LookAt(const ServedVersion& version, absl::Time now, Seen& seen);

  const scheduler::LoadOptions options_;
  const std::function<void(uint64_t, bool)> changed_;
  std::map<uint64_t, Seen> seen_;  // by version id
};

}  // namespace gpupool::server
