// Turns reports of workers into events of the scheduler, rows and job events.
//
// Thread-safety: none; control thread only, inside a transaction.
#pragma once

#include <cstddef>
#include <string>

namespace gpupool::worker::v1 {
class Report;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

class Transaction;

// Takes the report. A report that was taken before, or that speaks of an
// attempt that is over, leaves no trace but is acknowledged. Of each job's
// checkpoints the newest `keep_checkpoints` stay, and those that versions were
// made from.
void TakeReport(Transaction& transaction, const std::string& device,
                const worker::v1::Report& report, size_t keep_checkpoints);

}  // namespace gpupool::server
