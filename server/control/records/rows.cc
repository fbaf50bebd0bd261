#include "server/control/records/rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/elastic_devices.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gpupool/v1/limits.pb.h"

namespace gpupool::server {

google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  google::protobuf::Timestamp timestamp;
  const int64_t nanos = absl::ToUnixNanos(time);
  int64_t seconds = nanos / 1000000000;
  int64_t rest = nanos % 1000000000;
  // A timestamp's nanos are never negative, also before 1970.
  if (rest < 0) {
    rest += 1000000000;
    --seconds;
  }
  timestamp.set_seconds(seconds);
  timestamp.set_nanos(static_cast<int32_t>(rest));
  return timestamp;
}

google::protobuf::Duration ToProtoDuration(absl::Duration duration) {
  google::protobuf::Duration proto;
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  proto.set_seconds(nanos / 1000000000);
  proto.set_nanos(static_cast<int32_t>(nanos % 1000000000));
  return proto;
}

absl::Time FromTimestamp(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) +
         absl::Nanoseconds(timestamp.nanos());
}

std::string CanonicalBytes(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  // Maps would otherwise be written in any order, and equal messages would
  // differ.
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  // Writes what is still buffered and cuts `bytes` to its length. Without it
  // the result would depend on when `coded` is destroyed.
  coded.Trim();
  return bytes;
}

v1::ServingOptions WithDefaults(v1::ServingOptions options) {
  if (options.max_batch_size() == 0) {
    options.set_max_batch_size(v1::DEFAULT_SERVED_ROWS);
  }
  if (options.max_queue_size() == 0) {
    options.set_max_queue_size(scheduler::kDefaultMaxQueueSize);
  }
  if (options.max_programs() == 0) {
    options.set_max_programs(v1::DEFAULT_SERVED_PROGRAMS);
  }
  return options;
}

std::string PublishedModelName(const v1::JobSpec& spec) {
  return spec.publish().model().empty() ? spec.name() : spec.publish().model();
}

scheduler::DeviceDrain FromProto(const v1::DeviceDrain& drain) {
  return {.lets_finish = drain.lets_finish(), .reason = drain.reason()};
}

scheduler::Demands DemandsOf(const v1::JobSpec& spec) {
  // Rounds thousandths of a core up, so that a job never gets less than it
  // asked for.
  return {.host = {static_cast<uint64_t>(std::ceil(spec.host_cores() * 1000)),
                   spec.host_bytes()},
          .exclusive = spec.exclusive()};
}

void FillRetryDefaults(v1::RetrySpec* retry) {
  if (!retry->has_max_attempts()) {
    retry->set_max_attempts(scheduler::kDefaultMaxAttempts);
  }
  if (retry->backoff_seconds() == 0) {
    retry->set_backoff_seconds(
        absl::ToDoubleSeconds(scheduler::kDefaultFirstBackoff));
  }
}

scheduler::JobSubmitted ToEvent(const v1::Job& job) {
  const v1::JobSpec& spec = job.spec();
  v1::RetrySpec retry = spec.retry();
  FillRetryDefaults(&retry);
  scheduler::JobSubmitted submitted{
      .tenant = spec.tenant(),
      .queue_name = spec.queue(),
      .wanted_device = spec.device(),
      .device_counts = ElasticCounts(spec),
      .demands = DemandsOf(spec),
      .max_attempts = std::max(retry.max_attempts(), 1u),
      .first_backoff = absl::Seconds(retry.backoff_seconds()),
      .publish_on_success = spec.publish().on_success(),
      .id = scheduler::JobId(job.id()),
      .priority = spec.priority(),
      .bytes = job.plan().training().peak(),
      .device_count = DeviceCount(spec),
  };
  if (spec.expected_run_seconds() > 0) {
    submitted.expected_run = absl::Seconds(spec.expected_run_seconds());
  }
  if (spec.max_run_seconds() > 0) {
    submitted.max_run = absl::Seconds(spec.max_run_seconds());
  }
  if (spec.has_start_before()) {
    submitted.start_before = FromTimestamp(spec.start_before());
  }
  if (spec.has_deadline()) submitted.deadline = FromTimestamp(spec.deadline());
  submitted.held = job.held();
  submitted.array = scheduler::JobId(job.array_id());
  submitted.max_at_once = job.array_max_at_once();
  return submitted;
}

scheduler::VersionCreated ToEvent(const v1::ModelVersion& version) {
  return {.version = scheduler::VersionId(version.id()),
          .model = version.model(),
          .number = version.version(),
          .bytes = version.plan().inference().peak(),
          .replaces_older = !version.from_repository(),
          .tenant = version.tenant()};
}

std::vector<uint32_t> ElasticCounts(const v1::JobSpec& spec) {
  return engine::ElasticDevices(spec.min_devices(), spec.max_devices(),
                                spec.training().batch_size());
}

uint32_t DeviceCount(const v1::JobSpec& spec) {
  const std::vector<uint32_t> counts = ElasticCounts(spec);
  return counts.empty() ? std::max(spec.devices(), 1u) : counts.front();
}

uint32_t MostDevices(const v1::JobSpec& spec) {
  return std::max({spec.devices(), spec.max_devices(), 1u});
}

std::string RankCounter(uint64_t job, size_t rank) {
  return absl::StrCat("ended/", job, "/", rank);
}

std::string WorkerEndsCounter(uint64_t version) {
  return absl::StrCat("worker_ends/", version);
}

std::string LastWorkerEndCounter(uint64_t version) {
  return absl::StrCat("last_worker_end/", version);
}

scheduler::Job ToSchedulerJob(const v1::Job& row, uint32_t failures,
                              scheduler::Ranks ranks, absl::Time now) {
  scheduler::Job job{ToEvent(row)};
  job.attained = absl::Seconds(row.run_seconds());
  // The measured rest is better than the guess of the spec.
  if (row.progress().seconds_left() > 0) {
    job.expected_run =
        job.attained + absl::Seconds(row.progress().seconds_left());
  }
  job.state = static_cast<scheduler::JobState>(row.state());
  job.attempt = row.attempt();
  job.failures = failures;
  job.checkpoint_step = row.last_checkpoint().step();
  // A job whose ranks are not all found after a restart starts again.
  const bool fits = job.elastic()
                        ? std::count(job.device_counts.begin(),
                                     job.device_counts.end(), ranks.size()) > 0
                        : ranks.size() == job.device_count;
  if (IsLive(job.state) && !fits) {
    job.state = scheduler::JobState::kBackingOff;
  }
  if (IsLive(job.state)) {
    job.device_count = static_cast<uint32_t>(ranks.size());
    for (const scheduler::Rank& rank : ranks) {
      // The other ranks cannot go on without that one.
      if (rank.end != scheduler::Outcome::kInterrupted) continue;
      job.interruption = "a rank was lost before the server's restart";
    }
    job.ranks = std::move(ranks);
  }
  if (job.state == scheduler::JobState::kBackingOff) job.wake_time = now;
  return job;
}

scheduler::Version ToSchedulerVersion(const v1::ModelVersion& row,
                                      const scheduler::Device* device) {
  using scheduler::VersionState;
  const scheduler::VersionCreated created = ToEvent(row);
  scheduler::Version version;
  version.id = created.version;
  version.model = created.model;
  version.number = created.number;
  version.tenant = created.tenant;
  version.bytes = created.bytes;
  version.wanted_device = row.wanted_device();
  version.error = row.error();
  version.state = static_cast<VersionState>(row.state());
  // It was still loading when the server ended, so it may still replace older
  // versions.
  version.replaces_older =
      created.replaces_older && version.state == VersionState::kLoading;
  if (!MayHoldBytes(version.state)) return version;
  if (device != nullptr) {
    version.device = device->id;
  } else if (version.state == VersionState::kUnloading) {
    version.state = VersionState::kUnloaded;
  } else {
    version.state = VersionState::kLoading;
  }
  return version;
}

v1::ModelVersion VersionOf(const v1::Job& job,
                           const v1::Checkpoint& checkpoint) {
  v1::ModelVersion version;
  version.set_model(PublishedModelName(job.spec()));
  version.set_state(v1::UNLOADED);
  version.set_job_id(job.id());
  version.set_tenant(job.spec().tenant());
  version.set_step(checkpoint.step());
  version.set_manifest_sha256(checkpoint.manifest_sha256());
  version.set_stored_bytes(checkpoint.bytes());
  if (checkpoint.has_held_out_loss()) {
    version.set_held_out_loss(checkpoint.held_out_loss());
  }
  version.set_best_checkpoint(job.best_checkpoints_size() > 0 &&
                              job.best_checkpoints(0).step() ==
                                  checkpoint.step());
  *version.mutable_plan() = job.plan();
  version.mutable_plan()->clear_training();
  *version.mutable_serving() = WithDefaults(job.spec().publish().serving());
  *version.mutable_spec() = job.spec().model();
  return version;
}

worker::v1::LoadVersion LoadRequestOf(const v1::ModelVersion& version) {
  worker::v1::LoadVersion load;
  load.set_version_id(version.id());
  load.set_name(absl::StrCat(version.model(), "/", version.version()));
  load.set_manifest_sha256(version.manifest_sha256());
  load.set_max_batch_size(version.serving().max_batch_size());
  load.set_limit_bytes(version.plan().inference().peak());
  load.set_max_programs(version.serving().max_programs());
  load.set_precision(version.serving().precision());
  load.set_benchmark(version.serving().benchmark());
  return load;
}

bool SameContent(const v1::Dataset& a, const v1::Dataset& b) {
  if (CanonicalBytes(a.layout()) != CanonicalBytes(b.layout())) return false;
  if (a.files_size() != b.files_size()) return false;
  for (int i = 0; i < a.files_size(); ++i) {
    if (a.files(i).sha256() != b.files(i).sha256()) return false;
    if (a.files(i).role() != b.files(i).role()) return false;
  }
  return true;
}

v1::JobError ErrorOf(absl::string_view reason, uint64_t step) {
  v1::JobError error;
  error.set_code(static_cast<int>(absl::StatusCode::kAborted));
  error.set_message(std::string(reason));
  error.set_hint(
      absl::StartsWith(reason, "is to blame")
          ? "see the logs of the workers for the faults that its work causes"
          : "see `gpupool devices` for restarts and the worker's log; raise "
            "retry.max_attempts to try more often");
  error.set_step(step);
  return error;
}

}  // namespace gpupool::server
