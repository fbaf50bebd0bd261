// Conversions between the rows of the store and the scheduler's types: pure
// functions.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message.h"
#include "google/protobuf/timestamp.pb.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/serve/batch_policy.h"
#include "scheduler/state/state.h"
#include "scheduler/step/event.h"

namespace gpupool::server {

google::protobuf::Timestamp ToTimestamp(absl::Time time);
google::protobuf::Duration ToProtoDuration(absl::Duration duration);
absl::Time FromTimestamp(const google::protobuf::Timestamp& timestamp);

// Returns the same bytes for equal messages within one build. For comparing
// only.
std::string CanonicalBytes(const google::protobuf::Message& message);

// Returns the options with the defaults of model.proto filled in.
v1::ServingOptions WithDefaults(v1::ServingOptions options);
// Returns the name of the model that the job publishes.
std::string PublishedModelName(const v1::JobSpec& spec);

// Fills in the scheduler's defaults for unset fields.
void FillRetryDefaults(v1::RetrySpec* retry);

// Converts the job without the jobs that it waits for. The caller adds those
// that have not ended.
scheduler::JobSubmitted ToEvent(const v1::Job& job);
scheduler::VersionCreated ToEvent(const v1::ModelVersion& version);

scheduler::DeviceDrain FromProto(const v1::DeviceDrain& drain);
// Returns the job's demands on its devices besides kind and bytes.
scheduler::Demands DemandsOf(const v1::JobSpec& spec);
// Returns the number of devices on which its attempts run.
uint32_t DeviceCount(const v1::JobSpec& spec);
// Returns the numbers of devices that an elastic job can run with, rising;
// empty for other jobs.
std::vector<uint32_t> ElasticCounts(const v1::JobSpec& spec);
// Returns the largest number of devices that it may ever run on.
uint32_t MostDevices(const v1::JobSpec& spec);
// Returns the name of the counter that keeps the end of a rank of the live
// attempt: a scheduler::Outcome, or 0 while the rank has not ended.
std::string RankCounter(uint64_t job, size_t rank);

// Return the names of the counters that keep how many workers ended under the
// version's work, and the second of the last end.
std::string WorkerEndsCounter(uint64_t version);
std::string LastWorkerEndCounter(uint64_t version);

// Converts a job that has not ended. `ranks` are those of its live attempt, if
// any. A live job without all of its ranks (a device was taken out of the
// configuration) becomes one that backs off until `now`.
scheduler::Job ToSchedulerJob(const v1::Job& job, uint32_t failures,
                              scheduler::Ranks ranks, absl::Time now);
// Converts a version. Without its device it waits for a place.
scheduler::Version ToSchedulerVersion(const v1::ModelVersion& version,
                                      const scheduler::Device* device);

// Returns a version of the job's checkpoint, without id, number and time.
v1::ModelVersion VersionOf(const v1::Job& job,
                           const v1::Checkpoint& checkpoint);

// Returns the request to load the version, with its planned bytes as the limit.
worker::v1::LoadVersion LoadRequestOf(const v1::ModelVersion& version);

// Returns true when both have the same layout, and the same bytes under the
// same roles.
bool SameContent(const v1::Dataset& a, const v1::Dataset& b);

// Returns the error of a job that failed without one of its own.
v1::JobError ErrorOf(absl::string_view reason, uint64_t step);

}  // namespace gpupool::server
