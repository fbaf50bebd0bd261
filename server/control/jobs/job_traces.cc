#include "server/control/jobs/job_traces.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/state/order_policy.h"
#include "scheduler/state/types.h"
#include "server/control/calls/log.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"
#include "server/control/records/transaction.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

// Events that are read at a time to restore the progress of a job.
constexpr int kEventsPerRead = 1000;

bool IsOnDevice(v1::JobState state) {
  return scheduler::IsLive(static_cast<scheduler::JobState>(state));
}

bool IsOver(v1::JobState state) {
  return scheduler::IsEnded(static_cast<scheduler::JobState>(state));
}

// Returns the span of the event's attempt, which is the parent of others.
OpenSpan AttemptSpan(const OpenSpan& job, const v1::JobEvent& event) {
  const std::string key = absl::StrCat(
      TraceParentOf({.trace = job.trace, .span = job.id, .sampled = true}),
      "/attempt/", event.attempt());
  return {job.trace, DerivedSpanId(job.trace, key), job.id, job.state};
}

std::string QueueOf(const v1::Job& job) {
  const std::string& queue = job.spec().queue();
  return queue.empty() ? std::string(scheduler::kDefaultQueue) : queue;
}

std::string DevicesOf(const v1::Job& job) {
  return absl::StrJoin(job.devices(), ",");
}

int64_t Number(uint64_t value) { return static_cast<int64_t>(value); }

}  // namespace

void JobTraces::Take(Transaction& transaction) {
  if (tracer_ == nullptr) return;
  for (const v1::JobEvent& event : transaction.batch().append_events) {
    if (event.has_state_change() || event.has_checkpoint()) {
      TakeEvent(transaction, event);
    }
  }
}

void JobTraces::TakeEvent(Transaction& transaction, const v1::JobEvent& event) {
  const JobRow* const row = transaction.ledger().FindJob(event.job_id());
  if (row == nullptr || row->job.trace_parent().empty()) return;
  Progress* const progress = FindOrRestore(row->job, event.sequence());
  if (progress == nullptr) return;
  if (event.has_checkpoint()) {
    TakeCheckpoint(event, *progress,
                   transaction.checkpoint_time(row->job.id()));
    return;
  }
  TakeChange(row->job, event, *progress);
  const bool had_devices = IsOnDevice(progress->state);
  Advance(event, progress);
  if (IsOnDevice(progress->state) && !had_devices) {
    progress->devices = DevicesOf(row->job);
  }
  if (IsOver(progress->state)) jobs_.erase(event.job_id());
}

JobTraces::Progress* JobTraces::FindOrRestore(const v1::Job& job,
                                              uint64_t sequence) {
  const auto found = jobs_.find(job.id());
  if (found != jobs_.end()) return &found->second;
  std::optional<SpanContext> parent = ReadTraceHeaders(
      {.parent = job.trace_parent(), .state = job.trace_state()});
  if (!parent.has_value()) return nullptr;
  Progress progress;
  // Another server may have a job of this number in the same trace, but not of
  // the same submission.
  const std::string key = absl::StrCat(job.trace_parent(), "/job/", job.id());
  progress.span = {parent->trace, DerivedSpanId(parent->trace, key),
                   parent->span, std::move(parent->state)};
  if (sequence > 1 && !Restore(job, sequence, &progress)) return nullptr;
  progress.devices = DevicesOf(job);
  return &(jobs_[job.id()] = std::move(progress));
}

// Reads the changes of state before the event of this sequence.
bool JobTraces::Restore(const v1::Job& job, uint64_t sequence,
                        Progress* progress) const {
  uint64_t last = 0;
  while (true) {
    const auto events = store_->ReadEvents(job.id(), last, kEventsPerRead);
    if (!events.ok()) {
      LogWarning(absl::StrCat("event=trace_lost job=", job.id(), " error=\"",
                              events.status().message(), "\""));
      return false;
    }
    for (const v1::JobEvent& event : *events) {
      if (event.sequence() >= sequence) return true;
      if (event.has_state_change()) Advance(event, progress);
      last = event.sequence();
    }
    if (events->size() < kEventsPerRead) return true;
  }
}

void JobTraces::Advance(const v1::JobEvent& event, Progress* progress) {
  const v1::JobState to = event.state_change().to();
  if (IsOnDevice(to) && !IsOnDevice(progress->state)) {
    progress->attempt_since = FromTimestamp(event.time());
  }
  progress->state = to;
  progress->since = FromTimestamp(event.time());
}

// Makes the spans that end with a change of state.
void JobTraces::TakeChange(const v1::Job& job, const v1::JobEvent& event,
                           const Progress& before) {
  const v1::JobState to = event.state_change().to();
  const Interval stay = {before.since, FromTimestamp(event.time())};
  std::vector<Span> spans;
  const auto add = [&](const OpenSpan& parent, absl::string_view name) {
    Span& span =
        spans.emplace_back(ChildOf(parent, tracer_->NewSpan(), name, stay));
    AddAttribute(&span, "gpupool.reason", event.state_change().reason());
  };
  if (before.state == v1::QUEUED) add(before.span, "queue");
  if (before.state == v1::BACKING_OFF) add(before.span, "back-off");
  if (before.state == v1::STARTING && to == v1::RUNNING) {
    add(AttemptSpan(before.span, event), "start");
  }
  if (IsOnDevice(before.state) && !IsOnDevice(to)) {
    spans.push_back(AttemptOf(event, before));
  }
  if (IsOver(to)) spans.push_back(WholeJob(job, event, before));
  if (!spans.empty()) tracer_->Add(std::move(spans));
}

Span JobTraces::AttemptOf(const v1::JobEvent& event,
                          const Progress& before) const {
  const v1::StateChange& change = event.state_change();
  Span span =
      ChildOf(before.span, AttemptSpan(before.span, event).id, "attempt",
              {before.attempt_since, FromTimestamp(event.time())});
  span.attributes = {{"gpupool.attempt", Number(event.attempt())},
                     {"gpupool.devices", before.devices},
                     {"gpupool.reason", change.reason()}};
  span.failed = change.to() == v1::FAILED || change.to() == v1::BACKING_OFF;
  if (span.failed) span.error = change.reason();
  return span;
}

Span JobTraces::WholeJob(const v1::Job& job, const v1::JobEvent& event,
                         const Progress& before) const {
  const v1::StateChange& change = event.state_change();
  const OpenSpan& open = before.span;
  Span span = {.trace = open.trace,
               .id = open.id,
               .parent = open.parent,
               .state = open.state,
               .name = "job",
               .start = FromTimestamp(job.create_time()),
               .end = FromTimestamp(event.time())};
  span.attributes = {{"gpupool.job.id", Number(job.id())},
                     {"gpupool.job.name", job.spec().name()},
                     {"gpupool.job.state",
                      absl::AsciiStrToLower(v1::JobState_Name(change.to()))},
                     {"gpupool.job.steps", Number(job.progress().step())},
                     {"gpupool.job.attempts", Number(job.attempt())},
                     {"gpupool.tenant", job.spec().tenant()},
                     {"gpupool.queue", QueueOf(job)}};
  if (job.array_id() != 0) {
    AddAttribute(&span, "gpupool.array.id", Number(job.array_id()));
    AddAttribute(&span, "gpupool.array.index", Number(job.array_index()));
  }
  span.failed = change.to() == v1::FAILED;
  if (span.failed) span.error = change.error().message();
  return span;
}

// Makes the span of a checkpoint that is on disk at the time of the event.
void JobTraces::TakeCheckpoint(const v1::JobEvent& event,
                               const Progress& progress, absl::Duration took) {
  const absl::Time end = FromTimestamp(event.time());
  Span span = ChildOf(AttemptSpan(progress.span, event), tracer_->NewSpan(),
                      "checkpoint",
                      {std::max(progress.attempt_since, end - took), end});
  span.attributes = {
      {"gpupool.job.step", Number(event.checkpoint().step())},
      {"gpupool.checkpoint.bytes", Number(event.checkpoint().bytes())},
      {"gpupool.checkpoint.pause_seconds", event.checkpoint().save_seconds()}};
  tracer_->Add(std::move(span));
}

}  // namespace gpupool::server
