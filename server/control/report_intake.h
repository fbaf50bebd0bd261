// What a worker reports becomes events of the scheduler, rows and job events.
//
// Thread-safety: none; the control thread, inside a transaction.
#pragma once

#include <cstddef>
#include <string>

namespace gpupool::worker::v1 {
class Report;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

class Transaction;

// Takes the report, unless it was taken before or speaks of an attempt that is
// over; both leave no trace but are acknowledged. Of each job's checkpoints
// the newest `keep_checkpoints` stay, and those that versions were made from.
void TakeReport(Transaction& transaction, const std::string& device,
                const worker::v1::Report& report, size_t keep_checkpoints);

}  // namespace gpupool::server
