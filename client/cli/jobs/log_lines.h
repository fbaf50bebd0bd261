// The events of a job as the lines of `gpupool logs`. Pure but for what it
// remembers.
//
// Thread-safety: one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

// Chooses the events that are shown. Of the reports of progress it shows the
// first of an attempt, then one for each kProgressInterval, and the last before
// an event of another kind.
class LogEvents {
 public:
  static constexpr absl::Duration kProgressInterval = absl::Seconds(10);

  // With `all_progress` every report of progress is shown.
  explicit LogEvents(bool all_progress) : all_progress_(all_progress) {}

  // Takes the next event. Returns the events to show now, in their order.
  std::vector<v1::JobEvent> Take(const v1::JobEvent& event);
  // Returns the report that is held back, if there is one.
  std::vector<v1::JobEvent> End();

 private:
  const bool all_progress_;
  absl::Time next_ = absl::InfinitePast();
  std::optional<v1::JobEvent> held_back_;  // newest report, not shown yet
};

// Returns the line without its end: time, kind and text.
std::string LogText(const v1::JobEvent& event);

}  // namespace gpupool::client
