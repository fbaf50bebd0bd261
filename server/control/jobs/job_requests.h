// Handles requests about existing jobs: to read them and their events, and to
// hold, release or requeue them. Also checks the prerequisites of a new job.
//
// Thread-safety: any thread, where no transaction or ledger is passed; see
// context.h.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class Job;
class JobEvent;
class JobExplanation;
class JobSpec;
class ListJobsRequest;
class ListJobsResponse;
}  // namespace gpupool::v1
namespace gpupool::scheduler {
struct JobRequest;
}  // namespace gpupool::scheduler

namespace gpupool::server {

class Ledger;
class Transaction;
struct ControlContext;

// Returns jobs as they are on disk, with the reasons why they wait. NotFound
// names the id.
absl::StatusOr<v1::Job> GetJob(const ControlContext& context, uint64_t id);
absl::StatusOr<v1::ListJobsResponse> ListJobs(
    const ControlContext& context, const v1::ListJobsRequest& request);

// Range of a job's events.
struct EventPage {
  uint64_t after = 0;  // sequence of the last known event
  int limit = 0;       // maximum number of events
};
// Returns events of the job by rising sequence. NotFound for an unknown job.
absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(
    const ControlContext& context, uint64_t job, EventPage page);

void HoldJob(const ControlContext& context, uint64_t id,
             Callback<v1::Job> callback);
void ReleaseJob(const ControlContext& context, uint64_t id,
                Callback<v1::Job> callback);
void RequeueJob(const ControlContext& context, uint64_t id,
                Callback<v1::Job> callback);
void ExplainJob(const ControlContext& context, uint64_t id,
                Callback<v1::JobExplanation> callback);

// Returns OK if the jobs that the spec names exist and may still end as
// required, and its times are in the future. Otherwise NotFound,
// FailedPrecondition or InvalidArgument.
absl::Status CheckStartRules(Transaction& transaction, const v1::JobSpec& spec);

// Returns the job's event with the prerequisites that have not ended.
scheduler::JobRequest EventOf(const v1::Job& job, Ledger& ledger);

}  // namespace gpupool::server
