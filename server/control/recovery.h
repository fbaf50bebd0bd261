// What the control thread knew before the server ended: read back from the
// store into a ledger. Nothing is started; workers that come back say what
// they still run, and the scheduler reconciles (WorkerReady).
//
// Thread-safety: before the control thread starts.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace gpupool::server {

class Ledger;
class Store;
struct ControlOptions;

// Adds `options.devices`, every job that has not ended and every version.
// Errors are the store's; the server must not start then.
absl::Status Recover(const ControlOptions& options, const Store& store,
                     absl::Time now, Ledger& ledger);

}  // namespace gpupool::server
