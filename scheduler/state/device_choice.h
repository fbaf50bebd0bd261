// The devices that a job or a model version may have, by its owner's words:
//
//   "cuda:1"  the device of this name
//   "cuda"    the devices of this kind
//   "any"     every device of the pool, accelerators first
//   ""        Every accelerator where there is one, else every CPU device.
//
// The last rule keeps training off the CPU devices of a pool that has GPUs.
// Busy, drained or too small GPUs never move a job to a CPU device: the owner
// has to ask for that. A queue that lists no accelerator counts as a pool
// without one.
//
// Thread-safety: pure functions.
#pragma once

#include "absl/strings/string_view.h"

namespace gpupool::scheduler {

inline constexpr absl::string_view kAnyDevice = "any";
inline constexpr absl::string_view kCpuKind = "cpu";

// Returns true for "cuda:1". Names of devices have a colon; kinds have none.
inline bool NamesDevice(absl::string_view wanted) {
  return wanted.find(':') != absl::string_view::npos;
}

// Returns true when `wanted` names neither a device nor a kind.
inline bool IsOpenChoice(absl::string_view wanted) {
  return wanted.empty() || wanted == kAnyDevice;
}

// Returns "cuda" for both "cuda:1" and "cuda".
inline absl::string_view KindIn(absl::string_view wanted) {
  return wanted.substr(0, wanted.find(':'));
}

// Returns true when CPU devices are left to jobs that ask for them.
inline bool SparesCpu(absl::string_view wanted, bool has_accelerators) {
  return wanted.empty() && has_accelerators;
}

// Returns whether a device of this name and kind is among those wanted.
inline bool TakesDevice(absl::string_view wanted, absl::string_view name,
                        absl::string_view kind) {
  return IsOpenChoice(wanted) || kind == wanted || name == wanted;
}

// Returns whether some device of the kind may be among those wanted.
inline bool TakesKind(absl::string_view wanted, absl::string_view kind) {
  return IsOpenChoice(wanted) || kind == KindIn(wanted);
}

}  // namespace gpupool::scheduler
