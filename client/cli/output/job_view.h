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

// Prints one line per job (id, name, state, device, progress, loss, age,
// reason) and one per array. Both lists must have the newest first, and so has
// the output. Prints at most `limit` lines (0: all).
void PrintJobs(const Stream& stream, bool headers,
               const v1::ListJobsResponse& jobs,
               const std::vector<v1::JobArray>& arrays, int limit,
               absl::Time now);

// Prints everything about one job, one fact per line.
void PrintJob(const Stream& stream, const v1::Job& job, absl::Time now);

// Returns "loss 0.0512, accuracy 98.61 % (360 rows)".
std::string EvaluationText(const v1::Evaluation& evaluation);

// Seconds from its first start to its end, or to `now`; "" before its start.
// Of the live or last attempt: "cpu:0", "cpu:0,cpu:1", and of many "cuda:0 and
// 7 more".
std::string DevicesText(const v1::Job& job);
std::string RunTime(const v1::Job& job, absl::Time now);

}  // namespace gpupool::client
