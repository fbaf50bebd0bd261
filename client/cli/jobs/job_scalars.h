// The curves of a job as numbers of steps, for files of other tools. Does no
// I/O.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "client/files/event_record.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

// Takes a job's events in their order and makes numbers of them. A slash in the
// name of a curve is between its group and its own name.
class JobScalars {
 public:
  // Returns the numbers of an event, or nothing if it has none. `rewinds` is
  // set when a resumed attempt repeats a step.
  std::optional<ScalarEvent> Take(const v1::JobEvent& event);

  // Returns the number of numbers so far, and the names of their curves.
  uint64_t count() const { return count_; }
  const std::set<std::string>& curves() const { return curves_; }

 private:
  void TakeProgress(const v1::Progress& progress, ScalarEvent& taken);
  void TakeEvaluation(const v1::Evaluation& evaluation, ScalarEvent& taken);

  uint32_t attempt_ = 0;
  uint64_t last_step_ = 0;
  uint64_t count_ = 0;
  std::set<std::string> curves_;
};

}  // namespace gpupool::client
