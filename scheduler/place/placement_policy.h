// Where something of a known size fits: a pure function of the state. What
// needs several devices gets them all or none, all of one kind and on one
// machine; what no machine is large enough for gets whole machines.
//
// "Not now" differs from "never": not now means that what runs there must end
// first, never means that even an empty device is too small or of the wrong
// kind. A device whose worker is away still counts for "never", and so does all
// of one whose memory fraction has been lowered.
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

// Devices of one kind, counted for people.
struct KindCount {
  absl::string_view kind;
  uint32_t devices = 0;
  uint32_t large_enough = 0;  // when nothing else is there
  uint32_t allowed = 0;       // of those, by their memory fraction too
  uint32_t ready = 0;         // of those
  uint32_t free = 0;          // of those, where it could start now
};

struct Placement {
  Fit fit = Fit::kNever;
  std::vector<DeviceId> devices;  // when kNow: by rank, rising
  uint64_t largest_free = 0;      // of the ready, admitted devices of the kind
  uint64_t largest_limit = 0;     // of all devices of the kind
  bool any_ready = false;         // a ready device of the kind exists
  const Device* drained = nullptr;  // the first of the kind that is
  // With kNever: devices would do, but no machine has enough beside them.
  bool lacks_host = false;
  // A CPU device that is large enough, and is left to what asks for it.
  const Device* spared = nullptr;
  // A device that would do if more of it could be used; null when others will
  // do. As `kinds`, valid as long as the state.
  const Device* held_back = nullptr;
  absl::InlinedVector<KindCount, 2> kinds;
};

// By the state's PlacementRule (pack_policy.h for kPack; what is served is
// spread). With kSpread: among the ready devices with enough free bytes, not in
// `excluded` and not reserved for another job or tenant: those that are
// reserved for the job's tenant, what is served those that are not reserved;
// then those that do not cool down, then with the fewest live attempts, then
// the fewest versions, then on the machine where the fewest would do (so that
// whole machines stay free), then the smallest rest (best fit), then the lowest
// id. Where several machines or kinds would do, the one whose last chosen
// device is the better one. What needs several devices never shares one with
// something else that does.
Placement Place(const State& state, const Need& need,
                const absl::btree_set<DeviceId>& excluded = {});

// Whether what needs them could be placed on exactly these devices now.
bool AreFreeFor(const State& state, const Need& need,
                absl::Span<const DeviceId> devices);

// Whether machines are large enough beside their devices, if nothing ran.
bool HostsCouldHold(const State& state, const Need& need);

// Whether so much will be left there once these jobs have stopped, and those
// that were told to before.
bool HostsWillHold(const State& state, const Need& need,
                   absl::Span<const DeviceId> devices,
                   absl::Span<const JobId> stopping = {});

// The devices to keep free for something that does not fit now: such where the
// bytes that attempts hold, which come back by themselves, would be enough;
// of these the ones that lack least. Nothing when versions hold too much on
// too many devices, since versions do not leave by themselves.
absl::btree_set<DeviceId> DevicesToHold(const State& state, const Need& need);

// Whether all of them could still become free enough by themselves, for it.
bool AreWorthHolding(const State& state, const Need& need,
                     const absl::btree_set<DeviceId>& devices);

// "never fits: needs 3.0 GiB, the largest device has 2.0 GiB", or "never fits:
// needs 4 devices of one kind with 3.0 GiB each; large enough are 2 of 2 cpu
// devices and 1 of 2 cuda devices"; names the kind when one was asked for.
std::string NeverFitsText(const Need& need, const Placement& placement);

// "; a memory fraction of 0.25 keeps it off cpu:0, which has 2.0 GiB: ...";
// empty when no memory fraction is why it does not fit.
std::string HeldBackText(const Placement& placement);
// "; cpu:0 is drained (new fan)"; empty when none of the kind is.
std::string DrainedText(const Placement& placement);

// "; job 7 has cpu:0 to itself", of the first device that matches and has an
// exclusive job; empty when none has.
std::string TakenText(const State& state, const Need& need);

// "1.5 host cores and 2.0 GiB of host memory".
std::string HostText(const HostNeed& host);

// "2 cuda devices", "2 devices of one kind"; of one device "a cuda device" or
// its name. With an exclusive need "a whole cuda device", "all of cuda:1".
std::string DevicesText(const Need& need);

}  // namespace gpupool::scheduler
