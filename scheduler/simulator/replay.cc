#include "scheduler/simulator/replay.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "scheduler/state/counted.h"
#include "scheduler/step/invariants.h"
#include "scheduler/step/step.h"

namespace gpupool::scheduler {
namespace {

constexpr size_t kMostSamples = 4096;
constexpr uint64_t kReplayProgressEvery = 512;  // jobs

// Kinds in the order in which events of one moment happen.
enum class Kind { kEnd, kBegin, kTimer, kSubmit };

struct Due {
  absl::Time time;
  Kind kind;
  uint64_t job = 0;  // index into the trace
  uint32_t attempt = 0;
  friend bool operator>(const Due& a, const Due& b) {
    return std::tie(a.time, a.kind, a.job, a.attempt) >
           std::tie(b.time, b.kind, b.job, b.attempt);
  }
};

// State of a job on the devices.
struct JobRun {
  absl::Duration done;  // run time of earlier attempts
  absl::Time began = absl::InfiniteFuture();
  absl::Time placed;
  absl::Duration on_devices;
  std::vector<DeviceId> ranks;  // devices of the live attempt
  uint32_t attempt = 0;
};

class Replayer {
 public:
  Replayer(absl::Span<const TraceJob> trace, const ReplayOptions& options,
           ReplayProgress progress)
      : trace_(trace),
        options_(options),
        progress_(progress),
        runs_(trace.size()) {
    result_.jobs.resize(trace.size());
  }

  absl::StatusOr<ReplayResult> Run();

 private:
  absl::Status AddDevices();
  absl::Status Send(const Event& event);
  absl::Status Happen(const Due& due);
  void CarryOut(const StartJob& start);
  absl::Status CarryOut(const StopJob& stop);
  absl::Status End(uint64_t job, Outcome outcome);
  void Leave(uint64_t job);
  void Advance(absl::Time to);
  void Sample();
  absl::Status Drain();

  static JobId IdOf(uint64_t job) { return JobId(job + 1); }
  static uint64_t IndexOf(JobId id) { return id.value() - 1; }

  absl::Span<const TraceJob> trace_;
  const ReplayOptions& options_;
  ReplayProgress progress_;
  State state_;
  absl::Time now_ = absl::UnixEpoch();
  absl::Time first_ = absl::UnixEpoch();
  std::priority_queue<Due, std::vector<Due>, std::greater<Due>> due_;
  std::vector<StopJob> stops_;  // received, not carried out yet
  std::vector<JobRun> runs_;
  ReplayResult result_;
  uint64_t ended_ = 0;
  uint64_t devices_ = 0;
  uint64_t busy_ = 0;
  double used_ = 0;  // device seconds
  double used_while_submitting_ = 0;
  double idle_waiting_ = 0;  // idle device seconds while jobs wait
  double waiting_ = 0;       // seconds while jobs wait
  absl::Duration sample_every_;
};

absl::Status Replayer::AddDevices() {
  devices_ = uint64_t{options_.nodes} * options_.devices_per_node;
  state_.SetPolicy(options_.policy);
  for (uint32_t node = 0; node < options_.nodes; ++node) {
    for (uint32_t i = 0; i < options_.devices_per_node; ++i) {
      state_.AddDevice(absl::StrCat("gpu:", node, ".", i), "gpu", 1,
                       {.node = node});
    }
  }
  for (uint64_t i = 0; i < devices_; ++i) {
    Step(state_,
         WorkerReady{.device = DeviceId(i), .running = {}, .loaded = {}}, now_);
  }
  for (const TraceJob& job : trace_) {
    // A group that is larger than a node takes whole nodes, even if it does not
    // fill the last one.
    const uint64_t wholes = (job.devices + options_.devices_per_node - 1) /
                            options_.devices_per_node;
    if (wholes > options_.nodes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "job ", job.name, " needs ", Counted(job.devices, "device"), "; ",
          Counted(options_.nodes, "node"), " with ", options_.devices_per_node,
          " each have ", devices_, ": simulate more or leave it out"));
    }
  }
  return absl::OkStatus();
}

absl::Status Replayer::Send(const Event& event) {
  StepResult step = Step(state_, event, now_);
  ++result_.events;
  if (options_.check_invariants) {
    if (absl::Status sound = CheckInvariants(state_); !sound.ok()) return sound;
  }
  for (const Action& action : step.actions) {
    if (const auto* start = std::get_if<StartJob>(&action)) {
      CarryOut(*start);
    } else if (const auto* stop = std::get_if<StopJob>(&action)) {
      // A stop answers with an event. It waits until Step has returned and all
      // its actions are known.
      stops_.push_back(*stop);
    } else if (const auto* timer = std::get_if<SetTimer>(&action)) {
      due_.push({timer->time, Kind::kTimer});
    }
  }
  return absl::OkStatus();
}

// Carries out stops until none is left. Each may lead to starts and further
// stops, which are appended: hence the index.
absl::Status Replayer::Drain() {
  for (size_t i = 0; i < stops_.size(); ++i) {
    const StopJob stop = stops_[i];
    if (absl::Status status = CarryOut(stop); !status.ok()) return status;
  }
  stops_.clear();
  return absl::OkStatus();
}

void Replayer::CarryOut(const StartJob& start) {
  const uint64_t job = IndexOf(start.attempt.job);
  JobRun& run = runs_[job];
  if (start.rank == 0) {
    run.ranks.clear();
    // Rank 0 comes first and begins the attempt for all ranks.
    run.attempt = start.attempt.number;
    run.placed = now_;
    // Only a job that was stopped pays for a restart.
    const bool resumes = start.attempt.number > 1;
    const absl::Duration cost =
        resumes ? options_.policy.restart_cost : absl::ZeroDuration();
    due_.push({now_ + cost, Kind::kBegin, job, run.attempt});
  }
  run.ranks.push_back(start.device);
  ++busy_;
}

// Ends one rank of the attempt. The first of its stops accounts for the whole
// attempt.
absl::Status Replayer::CarryOut(const StopJob& stop) {
  const uint64_t job = IndexOf(stop.attempt.job);
  JobRun& run = runs_[job];
  if (run.attempt == stop.attempt.number) {
    Leave(job);
    run.attempt = 0;  // voids its pending events
    ++result_.jobs[job].preemptions;
    ++result_.preemptions;
    if (stop.reason == StopReason::kMoved) ++result_.moves;
  }
  return Send(AttemptEnded{stop.device, stop.attempt, Outcome::kStopped, ""});
}

// Books the time of an attempt that leaves its devices.
void Replayer::Leave(uint64_t job) {
  JobRun& run = runs_[job];
  // A job that is stopped while it loads has done nothing. Its `began` is then
  // in the infinite future.
  if (run.began < now_) run.done += now_ - run.began;
  run.began = absl::InfiniteFuture();
  run.on_devices += now_ - run.placed;
  busy_ -= run.ranks.size();
}

absl::Status Replayer::End(uint64_t job, Outcome outcome) {
  JobRun& run = runs_[job];
  Leave(job);
  ReplayedJob& replayed = result_.jobs[job];
  replayed.completion = now_ - (first_ + trace_[job].submit);
  // All time that was not spent on devices is waiting.
  replayed.wait = replayed.completion - run.on_devices;
  // Moved out first: events below may start the next job.
  const std::vector<DeviceId> ranks = std::move(run.ranks);
  const AttemptRef attempt{IdOf(job), std::exchange(run.attempt, 0u)};
  for (DeviceId device : ranks) {
    absl::Status sent = Send(AttemptEnded{device, attempt, outcome, ""});
    if (!sent.ok()) return sent;
  }
  // The state would otherwise grow with the whole trace.
  state_.ForgetJob(IdOf(job));
  ++ended_;
  const double share =
      static_cast<double>(ended_) / static_cast<double>(trace_.size());
  if (ended_ % kReplayProgressEvery == 0 && !progress_(share)) {
    return absl::CancelledError("the replay was interrupted");
  }
  return absl::OkStatus();
}

absl::Status Replayer::Happen(const Due& due) {
  const uint64_t job = due.job;
  const AttemptRef attempt{IdOf(job), due.attempt};
  switch (due.kind) {
    case Kind::kTimer:
      return Send(TimerFired{});
    case Kind::kSubmit: {
      const TraceJob& submitted = trace_[job];
      // Each device has one byte and each job needs it, so jobs never share a
      // device.
      JobSubmitted event{.wanted_device = "", .id = IdOf(job), .bytes = 1};
      event.tenant = submitted.tenant;
      event.device_count = submitted.devices;
      if (options_.run_times_known) event.expected_run = submitted.run;
      return Send(event);
    }
    case Kind::kBegin: {
      if (runs_[job].attempt != due.attempt) return absl::OkStatus();
      runs_[job].began = now_;
      due_.push({now_ + (trace_[job].run - runs_[job].done), Kind::kEnd, job,
                 due.attempt});
      return Send(AttemptStarted{runs_[job].ranks.front(), attempt});
    }
    case Kind::kEnd:
      if (runs_[job].attempt != due.attempt) return absl::OkStatus();
      return End(job, Outcome::kSucceeded);
  }
  return absl::OkStatus();
}

void Replayer::Sample() {
  result_.samples.push_back({now_ - first_, static_cast<uint32_t>(busy_),
                             static_cast<uint32_t>(state_.queue().size())});
  if (result_.samples.size() < kMostSamples) return;
  // Drop every second sample and halve the rate, which bounds memory on traces
  // of any length.
  for (size_t i = 0; 2 * i < kMostSamples; ++i) {
    result_.samples[i] = result_.samples[2 * i];
  }
  result_.samples.resize(kMostSamples / 2);
  sample_every_ *= 2;
}

// Advances the time and sums the areas under the load curves. Call before the
// state changes at `to`.
void Replayer::Advance(absl::Time to) {
  const double seconds = absl::ToDoubleSeconds(to - now_);
  used_ += static_cast<double>(busy_) * seconds;
  // The trace is sorted by submission.
  const absl::Time last = first_ + trace_.back().submit;
  if (now_ < last) {
    used_while_submitting_ += static_cast<double>(busy_) *
                              absl::ToDoubleSeconds(std::min(to, last) - now_);
  }
  if (!state_.queue().empty()) {
    waiting_ += seconds;
    idle_waiting_ += static_cast<double>(devices_ - busy_) * seconds;
  }
  now_ = to;
}

absl::StatusOr<ReplayResult> Replayer::Run() {
  if (absl::Status added = AddDevices(); !added.ok()) return added;
  for (uint64_t job = 0; job < trace_.size(); ++job) {
    due_.push({first_ + trace_[job].submit, Kind::kSubmit, job});
  }
  sample_every_ = absl::Seconds(1);
  absl::Time next_sample = now_;
  while (ended_ < trace_.size()) {
    // No event is due, so the scheduler has forgotten a job.
    if (due_.empty()) {
      return absl::InternalError(
          absl::StrCat(trace_.size() - ended_, " jobs wait for ever; ",
                       state_.queue().size(), " are queued"));
    }
    const Due due = due_.top();
    due_.pop();
    Advance(due.time);
    if (now_ >= next_sample) {
      Sample();
      next_sample = now_ + sample_every_;
    }
    if (absl::Status status = Happen(due); !status.ok()) return status;
    if (absl::Status status = Drain(); !status.ok()) return status;
  }
  result_.makespan = now_ - (first_ + trace_.front().submit);
  const double span = absl::ToDoubleSeconds(result_.makespan);
  if (span > 0) result_.utilization = used_ / (span * devices_);
  const double submitting =
      absl::ToDoubleSeconds(trace_.back().submit - trace_.front().submit);
  if (submitting > 0) {
    result_.arrival_utilization =
        used_while_submitting_ / (submitting * devices_);
  }
  if (waiting_ > 0)
    result_.fragmentation = idle_waiting_ / (waiting_ * devices_);
  return std::move(result_);
}

}  // namespace

absl::StatusOr<ReplayResult> ReplayTrace(absl::Span<const TraceJob> trace,
                                         const ReplayOptions& options,
                                         ReplayProgress progress) {
  return Replayer(trace, options, progress).Run();
}

}  // namespace gpupool::scheduler
