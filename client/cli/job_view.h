// Jobs as people read them. The printing functions write to their stream only.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/console.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

// "queued", "backing off", ...
std::string StateText(v1::JobState state);
// Green when it succeeded, red when it failed, yellow while it waits.
Style StateStyle(v1::JobState state);

// The state of that name in any case ("running"), or JOB_STATE_UNSPECIFIED.
v1::JobState ParseState(const std::string& name);
std::vector<std::string> StateNames();

absl::Time ToTime(const google::protobuf::Timestamp& time);
// "3m05s" since `time`; "" when it is not set.
std::string Age(bool has_time, const google::protobuf::Timestamp& time,
                absl::Time now);

// Jobs and arrays of a listing. Borrowed.
struct JobList {
  const v1::ListJobsResponse& jobs;         // newest first
  const std::vector<v1::JobArray>& arrays;  // newest first
  int limit = 0;                            // most lines; 0: all
};

// Prints one line a job: id, name, state, device, progress, loss, age, reason;
// and one an array. The newest come first.
void PrintJobs(const Stream& stream, const JobList& list, bool headers,
               absl::Time now);

// All of one job, a line a fact.
void PrintJob(const Stream& stream, const v1::Job& job, absl::Time now);

// "loss 0.0512, accuracy 98.61 % (360 rows)".
std::string EvaluationText(const v1::Evaluation& evaluation);

// Seconds from its first start to its end, or to `now`; "" before its start.
// Of the live or last attempt: "cpu:0", "cpu:0,cpu:1", and of many "cuda:0 and
// 7 more".
std::string DevicesText(const v1::Job& job);
std::string RunTime(const v1::Job& job, absl::Time now);

}  // namespace gpupool::client
