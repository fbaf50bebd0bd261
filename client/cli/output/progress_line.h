// The text of a job's progress: one line that fits a terminal, or one plain
// line for a file. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

struct ProgressView {
  std::string name;  // of the job
  v1::JobState state = v1::QUEUED;
  std::string waiting_reason;  // while the job waits
  v1::Progress progress;
  uint64_t memory_bytes = 0;  // measured, else planned; 0: unknown
  absl::Duration waited;      // since the submission
};

// Returns a bar with step/total, loss, samples/s, time left and memory. While
// the job waits, returns for how long and why; before the first step, that
// there is none yet. The line has at most `width` columns: the bar shrinks
// first, then memory, rate and bar are left out, in this order.
std::string ProgressLine(const ProgressView& view, int width);

// Returns the same facts in words, without a bar and with any length.
std::string PlainProgress(const ProgressView& view);

// Returns "WHAT  [===>  ]  3.1 MiB of 9.8 MiB" for bytes that are moved or
// read.
std::string TransferText(const std::string& what, uint64_t done,
                         uint64_t total);

// Returns "[=====>    ]": `width` columns, of which `share` (0..1) are filled.
std::string Bar(double share, int width);

}  // namespace gpupool::client
