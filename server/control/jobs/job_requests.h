// What people ask of jobs that are there: to see them and their events, to
// hold, release or requeue them, and what they wait for; and what a job's own
// prerequisites are.
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
struct JobSubmitted;
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

// A part of a job's events.
struct EventPage {
  uint64_t after = 0;  // sequence of the last event that is known
  int limit = 0;       // on the number of events
};
// Returns events of the job with rising sequences. NotFound for an unknown job.
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

// Whether jobs that the spec names exist and may still end as they must, and
// whether its times are to come. NotFound, FailedPrecondition or
// InvalidArgument.
absl::Status CheckStartRules(Transaction& transaction, const v1::JobSpec& spec);

// The job's event with those of its prerequisites that have not ended.
scheduler::JobSubmitted EventOf(const v1::Job& job, Ledger& ledger);

}  // namespace gpupool::server
