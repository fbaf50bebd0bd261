// Adds figures and advice to the answer of PlanJob: largest batches, for which
// the meta worker plans the job with other batch sizes, and times of steps.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/control/calls/callback.h"

namespace gpupool::server {

struct ControlContext;

// A job that the meta worker has planned.
struct AdvisedPlan {
  v1::JobSpec spec;
  worker::v1::ToWorker request;  // to the meta worker, with the spec
  v1::PlanJobResponse response;  // with plan and total_steps
  absl::Time asked;              // when its plan was asked for
  // The rows that train; 0: not known, and no batch is searched.
  uint64_t rows = 0;
  bool uploaded = false;  // whether `rows` are those of a dataset
  v1::Job measured;       // a job of the same plan that has run; 0 as id: none
};

// Returns the newest of the tenant's last jobs of this name that has the plan's
// key, trains on data of the same names and has reported a rate; an empty
// message when there is none. Reads the store.
v1::Job FindMeasured(const ControlContext& context, const v1::JobSpec& spec,
                     uint64_t dataset_id, uint64_t validation_id);

// Answers with the response and its largest_batches, step_times and advice.
// Asks the meta worker for one plan at a time, so that requests of others come
// between. Without an answer of the meta worker the searches end early. No
// batch is searched if the job's own plan took over 2 s, nor while three other
// requests are searching.
void AddAdvice(const ControlContext& context, AdvisedPlan plan,
               Callback<v1::PlanJobResponse> callback);

}  // namespace gpupool::server
