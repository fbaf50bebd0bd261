// Tells quickly, for many needs, that the pool has no room now. Sums that only
// some needs ask for are computed when the first of them asks.
//
// Thread-safety: none. Valid until the state changes.
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
  // Looks at the devices that jobs of `queue` may use; with null at all
  // devices.
  explicit FreeDevices(const State& state,
                       const absl::btree_set<DeviceId>& excluded = {},
                       const Queues::Entry* queue = nullptr);

  // Returns the same without the devices in `excluded`, while the state has not
  // changed. Costs less than to look at all devices again.
  FreeDevices Without(const absl::btree_set<DeviceId>& excluded) const;

  // Returns false when Place would certainly find nothing on unreserved
  // devices.
  bool MayHold(const Need& need);
  // Returns exactly whether Place would not say kNever.
  bool MayEverHold(const Need& need);

 private:
  // Bytes, in descending order: at least n devices have the n-th entry's bytes.
  using Descending = std::vector<uint64_t>;
  struct Kind {
    absl::string_view kind;
    uint64_t most_free = 0;  // largest free bytes of an admitted device
    // Free bytes of the admitted devices that run no gang: on the machine that
    // is best for each n, and on all machines. Of the latter only the first
    // `sorted` are in order, all others are not larger.
    Descending on_a_site;
    std::vector<uint64_t> on_all;
    size_t sorted = 0;
    Descending full;  // bytes on empty devices
  };
  struct Site {
    size_t kind = 0;  // index into kinds_
    uint32_t devices = 0;
  };
  // An admitted device: it accepts the least need and is not excluded. Has
  // copies of what is summed up, so that sums read only these, side by side.
  struct Admitted {
    uint64_t free_bytes = 0;
    DeviceId id;
    uint32_t site = 0;
    bool has_gang = false;
  };

  FreeDevices() = default;

  template <typename Holds>
  bool AnyKind(const Need& need, Holds holds);
  bool NamedMayEverHold(const Need& need) const;
  void Admit(const Admitted& device);
  void LookForGangs();
  static bool HasOnAll(Kind& kind, const Need& need);
  bool HostMayHold(const Need& need) const;
  // Returns whether devices that are reserved for the need's tenant may hold
  // it.
  bool ReservedMayHold(const Need& need) const;

  const State* state_ = nullptr;
  const Queues::Entry* queue_ = nullptr;
  absl::InlinedVector<Kind, 2> kinds_;
  std::vector<Site> sites_;
  std::vector<Admitted> admitted_;         // by id
  std::vector<const Device*> of_tenants_;  // the same, reserved for a tenant
  uint32_t smallest_site_ = 0;  // least devices of one kind on one machine
  bool looked_for_gangs_ = false;
};

}  // namespace gpupool::scheduler
