// Between the rows of the store and the scheduler's own types: pure functions.
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
#include "scheduler/serve/batch_policy.h"
#include "scheduler/state/state.h"
#include "scheduler/step/event.h"

namespace gpupool::server {

google::protobuf::Timestamp ToTimestamp(absl::Time time);
google::protobuf::Duration ToProtoDuration(absl::Duration duration);
absl::Time FromTimestamp(const google::protobuf::Timestamp& timestamp);

// The same bytes for equal messages within one build; for comparing only.
std::string CanonicalBytes(const google::protobuf::Message& message);

// Defaults of model.proto filled in.
v1::ServingOptions WithDefaults(v1::ServingOptions options);
// The model's name that a job publishes under.
std::string PublishedModelName(const v1::JobSpec& spec);

// Fills in the scheduler's defaults where nothing is said.
void FillRetryDefaults(v1::RetrySpec* retry);

// Without the jobs that it waits for: who knows which of them have not ended
// adds those.
scheduler::JobSubmitted ToEvent(const v1::Job& job);
scheduler::VersionCreated ToEvent(const v1::ModelVersion& version);

scheduler::DeviceDrain FromProto(const v1::DeviceDrain& drain);
// Returns what the job demands of its devices beside kind and bytes.
scheduler::Demands DemandsOf(const v1::JobSpec& spec);
// On how many devices its attempts run.
uint32_t DeviceCount(const v1::JobSpec& spec);
// With how many devices an elastic job can run, rising; empty: it is none.
std::vector<uint32_t> ElasticCounts(const v1::JobSpec& spec);
// The most that it may ever run on.
uint32_t MostDevices(const v1::JobSpec& spec);
// The counter that keeps how a rank of the live attempt has ended: a
// scheduler::Outcome; 0 while it has not.
std::string RankCounter(uint64_t job, size_t rank);

// A job that has not ended, as the scheduler knew it. `ranks` are those of its
// attempt, if it is live; a live job without all of them (a device was taken
// out of the configuration) becomes one that backs off until `now`.
scheduler::Job ToSchedulerJob(const v1::Job& job, uint32_t failures,
                              std::vector<scheduler::Rank> ranks,
                              absl::Time now);
// The same for a version; without its device it waits for a place.
scheduler::Version ToSchedulerVersion(const v1::ModelVersion& version,
                                      const scheduler::Device* device);

// A version of the job's checkpoint, without id, number and time.
v1::ModelVersion VersionOf(const v1::Job& job,
                           const v1::Checkpoint& checkpoint);

// True when both have the same layout and the same bytes under the same roles.
bool SameContent(const v1::Dataset& a, const v1::Dataset& b);

// The error of a job that failed without one of its own.
v1::JobError ErrorOf(absl::string_view reason, uint64_t step);

}  // namespace gpupool::server
