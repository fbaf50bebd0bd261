// Text about jobs. The printing functions write only to their stream.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/output/console.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

// Returns "queued", "backing off", ...
std::string StateText(v1::JobState state);
// Returns green for succeeded, red for failed, yellow for waiting jobs.
Style StateStyle(v1::JobState state);

// Returns the state with this name in any case ("running"), or
// JOB_STATE_UNSPECIFIED.
v1::JobState ParseState(const std::string& name);
std::vector<std::string> StateNames();

absl::Time ToTime(const google::protobuf::Timestamp& time);
// Returns "3m05s", the time since `time`, or "" when it is not set.
std::string Age(bool has_time, const google::protobuf::Timestamp& time,
                absl::Time now);

// Jobs and arrays of a listing. Borrowed.
struct JobList {
  const v1::ListJobsResponse& jobs;         // newest first
  const std::vector<v1::JobArray>& arrays;  // newest first
  int limit = 0;                            // most lines; 0: all
};

// Prints one line per job (id, name, state, device, progress, loss, age,
// reason) and one per array, the newest first.
void PrintJobs(const Stream& stream, const JobList& list, bool headers,
               absl::Time now);

// Prints everything about one job, one fact per line.
void PrintJob(const Stream& stream, const v1::Job& job, absl::Time now);

// Returns the devices of the live or last attempt: "cpu:0", "cpu:0,cpu:1", and
// of many "cuda:0 and 7 more".
std::string DevicesText(const v1::Job& job);
// Returns the time from its first start to its end, or to `now`; "" before its
// start.
std::string RunTime(const v1::Job& job, absl::Time now);

}  // namespace gpupool::client
