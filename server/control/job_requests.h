// What people ask of jobs that are there: to hold, release or requeue them, and
// what they wait for; and what a job's own prerequisites are.
//
// Thread-safety: any thread, where no transaction or ledger is passed; see
// context.h.
#pragma once

#include <cstdint>

#include "server/control/context.h"

namespace gpupool::server {

void HoldJob(const ControlContext& context, uint64_t id,
             ControlLoop::Callback<v1::Job> callback);
void ReleaseJob(const ControlContext& context, uint64_t id,
                ControlLoop::Callback<v1::Job> callback);
void RequeueJob(const ControlContext& context, uint64_t id,
                ControlLoop::Callback<v1::Job> callback);
void ExplainJob(const ControlContext& context, uint64_t id,
                ControlLoop::Callback<v1::JobExplanation> callback);

// Whether jobs that the spec names exist and may still end as they must, and
// whether its times are to come. NotFound, FailedPrecondition or
// InvalidArgument.
absl::Status CheckStartRules(Transaction& transaction, const v1::JobSpec& spec);

// The job's event with those of its prerequisites that have not ended.
scheduler::JobSubmitted EventOf(const v1::Job& job, Ledger& ledger);

}  // namespace gpupool::server
