// Follows a job to its end on the console, for `run` and `watch`.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "client/cli/command/context.h"
#include "client/cli/output/job_curves.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

struct FollowOptions {
  // Whether each event is printed as a line of JSON on standard output, and
  // nothing else.
  bool events_as_json = false;
  // Whether progress goes to standard error, because standard output is for
  // programs. By default it goes to standard output.
  bool progress_on_err = false;
  // Called with each event of the job before it is shown. May be empty.
  std::function<void(const v1::JobEvent&)> take_events = {};
  // Whether an interrupt leaves the job running, and says so. Otherwise the
  // caller stops the job.
  bool interrupt_detaches = true;
  // Curves that are drawn while the job runs (on a terminal), and at the end.
  // Null: none.
  const JobCurves* curves = nullptr;
};

// Follows `job` until it ends, and returns it in its final state. Cancelled
// when the user interrupts. The job then continues, and by default a line on
// standard error says how to follow it again.
absl::StatusOr<v1::Job> FollowJob(Context& context, Client& client,
                                  const v1::Job& job,
                                  const FollowOptions& options);

}  // namespace gpupool::client
