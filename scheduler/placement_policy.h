// Where something of a known size fits: a pure function of the state.
//
// "Not now" differs from "never": not now means that what runs there must end
// first, never means that even an empty device is too small or of the wrong
// kind. A device whose worker is away still counts for "never".
//
// Thread-safety: as State.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/btree_set.h"
#include "absl/strings/string_view.h"
#include "scheduler/state.h"
#include "scheduler/types.h"

namespace gpupool::scheduler {

struct Need {
  uint64_t bytes = 0;
  absl::string_view device_kind;  // empty: any
};

enum class Fit { kNow, kNotNow, kNever };

struct Placement {
  Fit fit = Fit::kNever;
  DeviceId device;             // meaningful when kNow
  uint64_t largest_free = 0;   // of the ready, admitted devices of the kind
  uint64_t largest_limit = 0;  // of all devices of the kind
  bool any_ready = false;      // a ready device of the kind exists
};

// Among the ready devices with enough free bytes and not in `excluded`: the
// one with the fewest live attempts, then the fewest versions, then the
// smallest rest (best fit), then the lowest id.
Placement Place(const State& state, const Need& need,
                const absl::btree_set<DeviceId>& excluded = {});

// The device to keep free for something that does not fit now: one where the
// bytes that attempts hold, which come back by themselves, would be enough;
// of these the one that lacks least. Nothing when versions hold too much
// everywhere, since versions do not leave by themselves.
std::optional<DeviceId> DeviceToHold(const State& state, const Need& need);

// "never fits: needs 3.0 GiB, the largest device has 2.0 GiB"; names the kind
// when one was asked for.
std::string NeverFitsText(const Need& need, const Placement& placement);

}  // namespace gpupool::scheduler
