// Restores the control thread's knowledge from the store into a ledger. Starts
// nothing: workers that come back report what they still run, and the scheduler
// reconciles (WorkerReady).
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
// Returns errors of the store; the server must not start then.
absl::Status Recover(const ControlOptions& options, const Store& store,
                     absl::Time now, Ledger& ledger);

}  // namespace gpupool::server
