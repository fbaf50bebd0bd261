#include "server/serving/ensemble_executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/counted.h"

namespace gpupool::server {

EnsembleExecutor::EnsembleExecutor(
    std::shared_ptr<const EnsembleBinding> binding,
    std::unique_ptr<VersionObserver> observer)
    : max_in_flight_(binding->facts.max_queue_size),
      label_(binding->facts.label),
      observer_(std::move(observer)),
      statistics_(binding->facts.max_batch_size),
      binding_(std::move(binding)) {}

void EnsembleExecutor::SetBinding(
    std::shared_ptr<const EnsembleBinding> binding) {
  absl::MutexLock lock(&mutex_);
  binding_.swap(binding);
}

absl::Status EnsembleExecutor::Admit(uint64_t bytes) const {
  if (!closed_.ok()) return closed_;
  if (runs_.size() >= max_in_flight_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("ensemble ", label_, " works on at most ",
                     engine::Counted(uint64_t{max_in_flight_}, "request"),
                     " at a time (max_inflight_requests); retry later"));
  }
  if (runs_.empty() || held_bytes_ + bytes <= kMaxHeldBytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "a request of ensemble ", label_, " may hold ", bytes,
      " bytes between its steps; those in flight hold ", held_bytes_, " of ",
      kMaxHeldBytes, "; retry later, or send fewer rows in one request"));
}

absl::StatusOr<std::vector<VersionHandle>> EnsembleExecutor::Pin(
    const EnsembleBinding& binding) {
  std::vector<VersionHandle> versions;
  for (const BoundStep& step : binding.steps) {
    versions.push_back(step.version.lock());
    if (versions.back() != nullptr) continue;
    return absl::UnavailableError(
        absl::StrCat(step.text, " is not at ready state; retry"));
  }
  return versions;
}

// Starts the run without the lock, since its steps may be answered at once.
void EnsembleExecutor::Enqueue(InferenceCall* call) {
  const absl::Time arrival = absl::Now();
  if (call->stages != nullptr) {
    call->stages->arrival = arrival;
    call->stages->tries = 1;
  }
  std::shared_ptr<const EnsembleBinding> binding;
  {
    absl::MutexLock lock(&mutex_);
    binding = binding_;
  }
  // Pinned without the lock: the last handle of a version may call back.
  absl::StatusOr<std::vector<VersionHandle>> versions = Pin(*binding);
  absl::Status refused = versions.status();
  std::shared_ptr<EnsembleRun> run;
  if (refused.ok()) {
    run = std::make_shared<EnsembleRun>(
        binding, *std::move(versions), call,
        [self = shared_from_this(), call, arrival](EnsembleRun& ended,
                                                   const absl::Status& status) {
          self->EndRun(call, arrival, ended, status);
        });
    const uint64_t bytes = binding->row_bytes * call->inputs.rows;
    absl::MutexLock lock(&mutex_);
    refused = Admit(bytes);
    if (refused.ok()) {
      runs_[call] = {.run = run, .bytes = bytes};
      held_bytes_ += bytes;
    }
  }
  if (refused.ok()) return run->Start();
  Record({.code = refused.code(),
          .rows = call->inputs.rows,
          .total = absl::Now() - arrival});
  call->OnAnswer(refused, {});
}

void EnsembleExecutor::EndRun(InferenceCall* call, absl::Time arrival,
                              EnsembleRun& run, const absl::Status& status) {
  std::shared_ptr<EnsembleRun> ended;  // let go without the lock
  {
    absl::MutexLock lock(&mutex_);
    const auto it = runs_.find(call);
    ended = std::move(it->second.run);
    held_bytes_ -= it->second.bytes;
    runs_.erase(it);
  }
  const EnsembleTimes times = run.times();
  const RequestSample sample{.code = status.code(),
                             .rows = call->inputs.rows,
                             .total = absl::Now() - arrival,
                             .queue = times.queue,
                             .copy_in = times.copy_in,
                             .compute = times.compute,
                             .copy_out = times.copy_out};
  // Record first: a client with the answer may ask for the statistics at once.
  if (status.ok()) {
    const BatchSample batch{.requests = 1,
                            .rows = sample.rows,
                            .copy_in = times.copy_in,
                            .compute = times.compute,
                            .copy_out = times.copy_out};
    statistics_.BatchDone(batch);
    if (observer_ != nullptr) observer_->BatchDone(batch);
  }
  Record(sample);
  run.Answer(status);
}

void EnsembleExecutor::Cancel(InferenceCall* call) {
  std::shared_ptr<EnsembleRun> run;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = runs_.find(call);
    if (it == runs_.end()) return;
    run = it->second.run;
  }
  run->Cancel(absl::CancelledError("the client cancelled the request"));
}

void EnsembleExecutor::Close(const absl::Status& status) {
  std::vector<std::shared_ptr<EnsembleRun>> runs;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = status;
    for (const auto& [call, entry] : runs_) runs.push_back(entry.run);
  }
  for (const std::shared_ptr<EnsembleRun>& run : runs) run->Cancel(status);
}

void EnsembleExecutor::CountRefused(absl::StatusCode code) {
  Record({.code = code});
}

void EnsembleExecutor::RecordCache(const CacheSample& sample) {
  statistics_.CacheDone(sample);
  if (observer_ != nullptr) observer_->CacheDone(sample);
}

void EnsembleExecutor::Record(const RequestSample& sample) {
  statistics_.RequestDone(sample, absl::Now());
  if (observer_ != nullptr) observer_->RequestDone(sample);
}

size_t EnsembleExecutor::in_flight() const {
  absl::MutexLock lock(&mutex_);
  return runs_.size();
}

}  // namespace gpupool::server
