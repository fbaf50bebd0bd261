// A look at the pool that tells quickly, for many needs, that there is no room
// now. What only some needs ask for is found when the first of them asks.
//
// Thread-safety: none. Valid as long as the state does not change.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "scheduler/place/need.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

class FreeDevices {
 public:
  // For needs of jobs in the queue; null: all devices are looked at.
  explicit FreeDevices(const State& state,
                       const absl::btree_set<DeviceId>& excluded = {},
                       const Queues::Entry* queue = nullptr);

  // False: Place would find nothing, if no device is reserved for it.
  bool MayHold(const Need& need);
  // Exactly: Place would not say kNever.
  bool MayEverHold(const Need& need);

 private:
  // Bytes, the most first: of the n-th entry at least n devices have as many.
  using Descending = std::vector<uint64_t>;
  struct Kind {
    absl::string_view kind;
    uint64_t most_free = 0;  // of an admitted device
    // Admitted devices without a job on several.
    Descending on_a_site;  // of the machine that is best for each n
    Descending on_all;
    Descending full;  // when nothing else is there
  };
  struct Site {
    size_t kind = 0;  // of kinds_
    uint32_t devices = 0;
  };

  template <typename Holds>
  bool AnyKind(const Need& need, Holds holds) const;
  bool NamedMayEverHold(const Need& need) const;
  void LookForGangs();
  bool HostMayHold(const Need& need) const;
  // On devices that are reserved for its tenant.
  bool ReservedMayHold(const Need& need) const;

  const State* state_;
  const Queues::Entry* queue_;
  absl::InlinedVector<Kind, 2> kinds_;
  std::vector<Site> sites_;
  std::vector<const Device*> admitted_;    // take the least need, not excluded
  std::vector<const Device*> of_tenants_;  // the same, but for a tenant
  uint32_t smallest_site_ = 0;             // devices of a kind on one machine
  bool looked_for_gangs_ = false;
};

}  // namespace gpupool::scheduler
