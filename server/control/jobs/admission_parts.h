// Private to server/control: the common parts of admitting jobs and arrays.
//
// Thread-safety: any thread, where no transaction is passed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::v1 {
class DataSpec;
class Job;
class JobSpec;
class ModelSpec;
class Plan;
class SubmitJobRequest;
}  // namespace gpupool::v1
namespace gpupool::worker::v1 {
class PlanReply;
class ToWorker;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

class BlobStore;
class Store;
class Transaction;
struct ControlContext;
struct JobRow;

absl::Status Draining();

// Returns the job that was submitted with the request's id, committed or not.
absl::StatusOr<std::optional<v1::Job>> EarlierJob(
    Transaction& transaction, const v1::SubmitJobRequest& request);
// Returns `earlier`, the v1::Job or v1::JobArray that came with the request's
// id. AlreadyExists when its spec is another one.
template <typename Row>
absl::StatusOr<Row> SameOrRefuse(const Row& earlier,
                                 const v1::SubmitJobRequest& request);
// Returns AlreadyExists: the id of the request, which is for a new `wanted`,
// was used for `holder`, such as "array 7".
absl::Status RequestIdUsed(const v1::SubmitJobRequest& request,
                           absl::string_view holder, absl::string_view wanted);

// Returns OK if `jobs` more jobs may be admitted now.
absl::Status CheckRoom(const ControlContext& context, Transaction& transaction,
                       size_t jobs);
// Returns OK if the tenant, and each tenant above it, may have `jobs` more jobs
// (--tenants). ResourceExhausted names what has its most jobs.
absl::Status CheckTenantJobs(Transaction& transaction,
                             const std::string& tenant, size_t jobs);
// Returns OK if a job of the plan may wait in its queue and may ever start.
absl::Status CheckFits(Transaction& transaction, const v1::JobSpec& spec,
                       const v1::Plan& plan);

// The datasets that a job reads. Without a validation set that one is empty.
struct JobData {
  v1::Dataset dataset;
  v1::Dataset validation;
};
// Returns the datasets. NotFound with the remedy when there is none of a name.
// INVALID_ARGUMENT for a synthetic one with numbers out of range.
absl::StatusOr<JobData> FindData(const Store& store, const v1::DataSpec& data);
// Returns OK if the datasets are still those with these ids.
absl::Status CheckData(Transaction& transaction, const JobData& data);

// Returns whether the model's files are there. A plan does not prove that,
// since they may have been deleted after planning.
bool HasFiles(const BlobStore& blobs, const v1::ModelSpec& model);

// Returns the request for the meta worker.
worker::v1::ToWorker PlanTraining(const v1::JobSpec& spec, const JobData& data);

// Returns a QUEUED job with the next id.
v1::Job NewJob(Transaction& transaction, const v1::JobSpec& spec,
               const worker::v1::PlanReply& plan);
// Adds the row with its first event. Does not tell the scheduler.
JobRow& AddRow(Transaction& transaction, v1::Job&& job);

}  // namespace gpupool::server
