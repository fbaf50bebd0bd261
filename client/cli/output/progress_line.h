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
  std::string waiting_reason;  // while it waits
  v1::Progress progress;
  uint64_t memory_bytes = 0;  // measured, else planned; 0: not known
  absl::Duration waited;      // since it was submitted
};

// A bar with step/total, loss, samples/s, time left and memory; while the job
// waits, for how long and why. At most `width` columns: the bar shrinks, then
// memory, rate and bar are left out, in this order.
std::string ProgressLine(const ProgressView& view, int width);

// The same facts in words, without a bar and of any length.
std::string PlainProgress(const ProgressView& view);

// "[=====>    ]": `width` columns, of which `share` (0..1) are done.
std::string Bar(double share, int width);

}  // namespace gpupool::client
