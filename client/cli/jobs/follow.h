// Following a job to its end on the console: the body of `run` and `watch`.
#pragma once

#include "absl/status/statusor.h"
#include "client/cli/command/context.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

struct FollowOptions {
  // Print each event as a line of JSON on standard output, nothing else.
  bool events_as_json = false;
  // Where the progress goes: standard output, or standard error where the
  // output is for programs.
  bool progress_on_err = false;
};

// Follows `job` until it ends and returns it as it then is. Cancelled when the
// user interrupts; the job goes on, and a line on standard error says how to
// come back.
absl::StatusOr<v1::Job> FollowJob(Context& context, Client& client,
                                  const v1::Job& job,
                                  const FollowOptions& options);

}  // namespace gpupool::client
