// Private to server/control: what the admission of a job and that of an array
// have in common.
//
// Thread-safety: any thread, where no transaction is passed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace gpupool::v1 {
class Dataset;
class Job;
class JobSpec;
class ModelSpec;
class Plan;
}  // namespace gpupool::v1
namespace gpupool::worker::v1 {
class PlanReply;
class ToWorker;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

class BlobStore;
class Transaction;
struct ControlContext;
struct JobRow;

absl::Status Draining();

// Whether so many more jobs may be taken now.
absl::Status CheckRoom(const ControlContext& context, Transaction& transaction,
                       size_t jobs);
// Whether a job of the plan may wait in its queue, and may ever start.
absl::Status CheckFits(Transaction& transaction, const v1::JobSpec& spec,
                       const v1::Plan& plan);
// Whether the dataset is still the one of that id.
absl::Status CheckDataset(Transaction& transaction, const std::string& name,
                          uint64_t id);

// Planning reads the files of a model, so a plan is no proof for later.
bool HasFiles(const BlobStore& blobs, const v1::ModelSpec& model);

// The question to the meta worker.
worker::v1::ToWorker PlanTraining(const v1::JobSpec& spec,
                                  const v1::Dataset& dataset);

// Queued, with the next id.
v1::Job NewJob(Transaction& transaction, const v1::JobSpec& spec,
               const worker::v1::PlanReply& plan);
// The row with its first event; the scheduler is not told.
JobRow& AddRow(Transaction& transaction, v1::Job job);

}  // namespace gpupool::server
