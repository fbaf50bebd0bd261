// Admits jobs: looks up the request id and the dataset, lets the meta worker
// plan, then writes the row. Also answers requests for a plan alone.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "server/control/calls/callback.h"
#include "server/control/jobs/submission_trace.h"

namespace gpupool::v1 {
class Dataset;
class Job;
class JobSpec;
class ModelSpec;
class PlanJobRequest;
class PlanJobResponse;
class PlanModelResponse;
class ServingOptions;
class SubmitJobRequest;
}  // namespace gpupool::v1
namespace gpupool::worker::v1 {
class ToWorker;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

class DeviceBoard;
class Store;
class Transaction;
struct ControlContext;

// Plans, stores and queues the job. Answers with it, or with the job of an
// earlier try. The callback ends `trace`, which may be null.
void SubmitJob(const ControlContext& context,
               const v1::SubmitJobRequest& request, Callback<v1::Job> callback,
               SubmissionTracePtr trace = nullptr);

void CancelJob(const ControlContext& context, uint64_t id,
               Callback<v1::Job> callback);

// Returns whether the caller may know of a dataset.
using MayReadDataset = std::function<bool(const v1::Dataset&)>;
inline MayReadDataset AllDatasets() {
  return [](const v1::Dataset&) { return true; };
}

// Plans a dataset that may not be read like one that does not exist yet.
void PlanJob(const ControlContext& context, const v1::PlanJobRequest& request,
             const MayReadDataset& may_read,
             Callback<v1::PlanJobResponse> callback);

void PlanModel(const ControlContext& context, const v1::ModelSpec& spec,
               const v1::ServingOptions& serving,
               Callback<v1::PlanModelResponse> callback);

// Returns the request for the meta worker to plan the job. Assumes a dataset
// when there is none, since bytes do not depend on its rows.
worker::v1::ToWorker PlanRequest(const Store& store, const v1::JobSpec& spec);

// Returns the dataset, or NotFound with the remedy.
absl::StatusOr<v1::Dataset> FindDataset(const Store& store,
                                        const std::string& name);

// Answers with the job as it is after the commit. Reads the row only then,
// since the transaction may change it further.
void AnswerWithJob(const ControlContext& context, Transaction& transaction,
                   uint64_t id, Callback<v1::Job> callback);

// Returns the row with the reason why the job waits.
v1::Job WithReason(const DeviceBoard& board, v1::Job job);

}  // namespace gpupool::server
