// Decides where something of a known size fits: a pure function of the state. A
// need for several devices gets all or none, of one kind and on one machine. A
// need that exceeds every machine gets whole machines.
//
// "Not now" means that a running job must end first. "Never" means that even an
// empty device is too small or of the wrong kind. For "never" a device counts
// even if its worker is away, and all its memory counts even if its memory
// fraction was lowered.
//
// Thread-safety: as State.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "scheduler/place/need.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

enum class Fit { kNow, kNotNow, kNever };

// Numbers of devices of one kind, for texts.
struct KindCount {
  absl::string_view kind;
  uint32_t devices = 0;
  uint32_t large_enough = 0;  // large enough when empty
  uint32_t allowed = 0;       // of those, also by their memory fraction
  uint32_t ready = 0;         // of those, with a worker
  uint32_t free = 0;          // of those, free for a start now
};

struct Placement {
  Fit fit = Fit::kNever;
  std::vector<DeviceId> devices;    // when kNow: by rank, rising
  uint64_t largest_free = 0;        // largest of the ready, admitted devices
  uint64_t largest_limit = 0;       // largest of all devices of the kind
  bool any_ready = false;           // whether a ready device of the kind exists
  const Device* drained = nullptr;  // the first drained one of the kind
  // With kNever: devices are large enough, but no machine has enough host room.
  bool lacks_host = false;
  // A CPU device that is large enough but is left to jobs that ask for it.
  const Device* spared = nullptr;
  // A device that would do if more of its memory could be used; null when
  // others will do. Valid as long as the state, like `kinds`.
  const Device* held_back = nullptr;
  absl::InlinedVector<KindCount, 2> kinds;
};

// Places the need by the state's PlacementRule: kPack as in pack_policy.h;
// versions are always spread.
//
// kSpread and kBestFit choose among ready devices with enough free bytes that
// are neither in `excluded` nor reserved for another job or tenant. kSpread
// prefers, in this order:
//   1. for a job devices that are reserved for its tenant, for a version
//      devices that are not reserved
//   2. for a version devices that do not cool down
//   3. the fewest live attempts
//   4. the fewest versions
//   5. the best connected devices (topology.h)
//   6. the machine where the fewest devices would do, so that whole machines
//      stay free
//   7. the smallest rest (best fit)
//   8. the lowest id
//
// kBestFit prefers by 1, 7, 5, 6 and 8. Of several machines or kinds both take
// the one whose last chosen device is better. Two gangs never share a device.
Placement Place(const State& state, const Need& need,
                const absl::btree_set<DeviceId>& excluded = {});

// Returns whether the need could be placed on exactly these devices now.
bool AreFreeFor(const State& state, const Need& need,
                absl::Span<const DeviceId> devices);

// Returns whether empty machines would have enough host room for the need.
bool HostsCouldHold(const State& state, const Need& need);

// Returns whether the devices' machines will have the host room once these
// jobs, and those that were already told to stop, have stopped.
bool HostsWillHold(const State& state, const Need& need,
                   absl::Span<const DeviceId> devices,
                   absl::Span<const JobId> stopping = {});

// Returns the devices to keep free for a need that does not fit now: devices
// where the bytes of attempts, which come back by themselves, would be enough.
// It prefers those that lack least. Returns none when versions hold too much on
// too many devices, since versions do not leave by themselves.
absl::btree_set<DeviceId> DevicesToHold(const State& state, const Need& need);

// Returns whether all of the devices could still become free enough for the
// need by themselves.
bool AreWorthHolding(const State& state, const Need& need,
                     const absl::btree_set<DeviceId>& devices);

// Returns "never fits: needs 3.0 GiB, the largest device has 2.0 GiB", or
// "never fits: needs 4 devices of one kind with 3.0 GiB each; large enough are
// 2 of 2 cpu devices and 1 of 2 cuda devices". Names the kind when one was
// asked for.
std::string NeverFitsText(const Need& need, const Placement& placement);

// Returns "; a memory fraction of 0.25 keeps it off cpu:0, which has 2.0 GiB:
// ...", or "" when no memory fraction is the cause.
std::string HeldBackText(const Placement& placement);
// Returns "; cpu:0 is drained (new fan)", or "" when no device of the kind is.
std::string DrainedText(const Placement& placement);

// Returns "; job 7 has cpu:0 to itself" for the first device that matches and
// runs an exclusive job, or "" when there is none.
std::string TakenText(const State& state, const Need& need);

// Returns "1.5 host cores and 2.0 GiB of host memory".
std::string HostText(const HostNeed& host);

// Returns "2 cuda devices" or "2 devices of one kind"; for one device "a cuda
// device" or its name; for an exclusive need "a whole cuda device" or "all of
// cuda:1".
std::string DevicesText(const Need& need);

}  // namespace gpupool::scheduler
