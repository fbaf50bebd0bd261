#include "server/serving/decoupled/decoupled_executor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/counted.h"
#include "server/serving/decoupled/loop_responses.h"

namespace gpupool::server {

// A request on its way, which is the batcher's call for it.
class DecoupledExecutor::Run : public InferenceCall {
 public:
  Run(std::shared_ptr<DecoupledExecutor> executor, InferenceCall* client)
      : call(client),
        arrival(absl::Now()),
        told(arrival),
        in_batches(executor->parts_.batches != nullptr),
        giving(!in_batches),
        executor_(std::move(executor)) {
    inputs = client->inputs;
    deadline = client->deadline;
    queue_deadline = client->queue_deadline;
    stages = client->stages;
  }

  void OnAnswer(
      const absl::Status& status,
      absl::Span<const absl::Span<const std::byte>> outputs) override {
    executor_->TakeAnswer(*this, status, outputs);
  }

  InferenceCall* const call;
  const absl::Time arrival;

  // Only whoever gives responses uses these.
  uint32_t next = 0;  // response
  absl::Time told;    // time of the last response, or of the arrival

  // Guarded by the executor's mutex.
  std::unique_ptr<ResponseSource> source;  // null: there is no answer yet
  absl::Status status;                     // the first error
  bool in_batches;     // the batcher has the call, or is about to
  bool wanted = true;  // the next response is
  bool giving;         // a thread is in Advance, or makes the source
  bool ended = false;
  absl::Time read_end = absl::InfiniteFuture();  // of patience with the client
  absl::Time alarm = absl::InfiniteFuture();     // the timer's next call

 private:
  const std::shared_ptr<DecoupledExecutor> executor_;
};

DecoupledExecutor::DecoupledExecutor(DecoupledParts parts)
    : parts_(std::move(parts)), statistics_(1) {}

DecoupledExecutor::~DecoupledExecutor() = default;

// -------------------------------------------------------------------- calls

absl::Status DecoupledExecutor::Admit() const {
  if (!closed_.ok()) return closed_;
  if (runs_.size() >= parts_.max_requests) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "model ", parts_.label, " works on at most ",
        engine::Counted(uint64_t{parts_.max_requests}, "request"),
        " at a time, also while their responses are read; retry later"));
  }
  const uint64_t others = runs_.size() * parts_.answer_bytes;
  if (runs_.empty() || others + parts_.answer_bytes <= kMaxHeldBytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the responses to a request of model ", parts_.label, " may have ",
      parts_.answer_bytes, " bytes; those in flight may have ", others, " of ",
      kMaxHeldBytes, "; read the responses of other requests, or retry later"));
}

void DecoupledExecutor::Enqueue(InferenceCall* call) {
  const auto run = std::make_shared<Run>(shared_from_this(), call);
  absl::Status refused;
  {
    absl::MutexLock lock(&mutex_);
    refused = Admit();
    if (refused.ok()) runs_[call] = run;
  }
  if (refused.ok()) return Begin(run);
  CountRefused(refused.code());
  call->OnAnswer(refused, {});
}

void DecoupledExecutor::Begin(const RunHandle& run) {
  if (parts_.batches == nullptr) {
    if (run->stages != nullptr) run->stages->arrival = run->arrival;
    SetSource(*run, parts_.make_source(*run, {}));
    {
      absl::MutexLock lock(&mutex_);
      run->giving = false;
    }
    return Advance(run);
  }
  parts_.batches->Enqueue(run.get());
  bool failed;
  {
    absl::MutexLock lock(&mutex_);
    failed = run->in_batches && !run->status.ok();
  }
  // A run that was cancelled before the batcher had it.
  if (failed) parts_.batches->Cancel(run.get());
}

DecoupledExecutor::RunHandle DecoupledExecutor::Find(
    InferenceCall* call) const {
  absl::MutexLock lock(&mutex_);
  const auto found = runs_.find(call);
  return found == runs_.end() ? nullptr : found->second;
}

void DecoupledExecutor::Cancel(InferenceCall* call) {
  const RunHandle run = Find(call);
  if (run == nullptr) return;
  Fail(run, absl::CancelledError("the client cancelled the request"));
}

void DecoupledExecutor::Resume(InferenceCall* call) {
  const RunHandle run = Find(call);
  if (run == nullptr) return;
  {
    absl::MutexLock lock(&mutex_);
    run->wanted = true;
    run->read_end = absl::InfiniteFuture();
  }
  Advance(run);
}

void DecoupledExecutor::Drain() {
  std::vector<RunHandle> runs;
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    const absl::Time end = absl::Now() + kReaderPatience;
    for (const auto& [call, run] : runs_) {
      if (!run->wanted) run->read_end = end;
      runs.push_back(run);
    }
  }
  if (parts_.batches != nullptr) {
    parts_.batches->Drain();
    for (const RunHandle& run : runs) Advance(run);
    return;
  }
  // The responses may be due in hours.
  for (const RunHandle& run : runs) {
    Fail(run, absl::UnavailableError(absl::StrCat(
                  "model ", parts_.label, " is being unloaded; retry")));
  }
}

void DecoupledExecutor::Close(const absl::Status& status) {
  std::vector<RunHandle> runs;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = status;
    for (const auto& [call, run] : runs_) runs.push_back(run);
  }
  if (parts_.batches != nullptr) parts_.batches->Close(status);
  for (const RunHandle& run : runs) Fail(run, status);
}

void DecoupledExecutor::CountRefused(absl::StatusCode code) {
  if (parts_.batches != nullptr) return parts_.batches->CountRefused(code);
  const RequestSample sample{.code = code};
  statistics_.RequestDone(sample, absl::Now());
  if (parts_.observer != nullptr) parts_.observer->RequestDone(sample);
}

// The answers of decoupled versions are not kept.
void DecoupledExecutor::RecordCache(const CacheSample& /*sample*/) {}

const VersionStatistics& DecoupledExecutor::statistics() const {
  return parts_.batches != nullptr ? parts_.batches->statistics() : statistics_;
}

VersionStatistics& DecoupledExecutor::own_statistics() {
  return parts_.batches != nullptr ? parts_.batches->statistics() : statistics_;
}

size_t DecoupledExecutor::in_flight() const {
  absl::MutexLock lock(&mutex_);
  return runs_.size();
}

// ------------------------------------------------------------------ answers

void DecoupledExecutor::TakeAnswer(
    Run& run, const absl::Status& status,
    absl::Span<const absl::Span<const std::byte>> outputs) {
  const RunHandle keep_alive = Find(run.call);
  {
    absl::MutexLock lock(&mutex_);
    run.in_batches = false;
  }
  if (status.ok()) {
    SetSource(run, parts_.make_source(run, outputs));
  } else {
    SetSource(run, status);
  }
  Advance(keep_alive);
}

void DecoupledExecutor::SetSource(
    Run& run, absl::StatusOr<std::unique_ptr<ResponseSource>> source) {
  absl::MutexLock lock(&mutex_);
  if (source.ok()) {
    run.source = *std::move(source);
  } else if (run.status.ok()) {
    run.status = source.status();
  }
}

void DecoupledExecutor::Fail(const RunHandle& run, const absl::Status& status) {
  bool in_batches;
  {
    absl::MutexLock lock(&mutex_);
    if (run->status.ok()) run->status = status;
    in_batches = run->in_batches;
  }
  // The answer of the batcher then ends the run.
  if (in_batches) return parts_.batches->Cancel(run.get());
  Advance(run);
}

// ---------------------------------------------------------------- responses

DecoupledExecutor::Step DecoupledExecutor::NextStep(Run& run, absl::Time now,
                                                    absl::Time* alarm) {
  if (run.ended || run.in_batches) return Step::kNothing;
  if (run.status.ok() && now >= run.read_end) {
    run.status = absl::UnavailableError(absl::StrCat(
        "model ", parts_.label, " is being unloaded, and the client has read ",
        "no response for ", absl::FormatDuration(kReaderPatience)));
  }
  const bool answered =
      run.source != nullptr && run.next >= run.source->count();
  if (!run.status.ok() || answered) {
    run.ended = true;
    return Step::kEnd;
  }
  if (run.source == nullptr) return Step::kNothing;
  *alarm = run.read_end;
  if (!run.wanted) return Step::kNothing;
  const absl::Time due = run.source->DueAt(run.next);
  if (now < due) {
    *alarm = due;
    return Step::kNothing;
  }
  run.wanted = false;
  if (draining_) run.read_end = now + kReaderPatience;
  return Step::kGive;
}

// While one thread is in the loop, other calls, also from further up its own
// stack, return at once. The loop sees their changes before it ends.
void DecoupledExecutor::Advance(const RunHandle& run) {
  {
    absl::MutexLock lock(&mutex_);
    if (run->giving) return;
    run->giving = true;
  }
  while (true) {
    absl::Time alarm = absl::InfiniteFuture();
    Step step;
    {
      absl::MutexLock lock(&mutex_);
      step = NextStep(*run, absl::Now(), &alarm);
      // After its end nobody gives anything of a run.
      if (step == Step::kNothing) run->giving = false;
    }
    if (step == Step::kNothing) return SetAlarm(run, alarm);
    if (step == Step::kEnd) return End(run);
    Give(*run);
  }
}

void DecoupledExecutor::Give(Run& run) {
  const absl::Time begin = absl::Now();
  SourcedResponse response = run.source->At(run.next);
  run.call->output_shapes = std::move(response.shapes);
  run.call->has_output = std::move(response.has_output);
  run.call->OnResponse(response.outputs);
  const absl::Time end = absl::Now();
  own_statistics().ResponseDone({.index = run.next,
                                 .kind = ResponseSample::Kind::kSuccess,
                                 .time = begin - run.told,
                                 .copy_out = end - begin});
  run.told = end;
  ++run.next;
}

void DecoupledExecutor::End(const RunHandle& run) {
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    runs_.erase(run->call);
    status = run->status;
  }
  // First, since a client with the answer may ask for the statistics at once.
  Record(*run, status);
  run->call->OnAnswer(status, {});
}

// Sets at most one alarm of a run at a time, unless the next is earlier.
// Weakly, since a pending alarm must not keep an unloaded version alive.
void DecoupledExecutor::SetAlarm(const RunHandle& run, absl::Time time) {
  {
    absl::MutexLock lock(&mutex_);
    if (time >= run->alarm) return;
    run->alarm = time;
  }
  parts_.timer->CallAt(
      time, [weak = weak_from_this(), weak_run = std::weak_ptr<Run>(run)] {
        const std::shared_ptr<DecoupledExecutor> self = weak.lock();
        const RunHandle woken = weak_run.lock();
        if (self == nullptr || woken == nullptr) return;
        {
          absl::MutexLock lock(&self->mutex_);
          woken->alarm = absl::InfiniteFuture();
        }
        self->Advance(woken);
      });
}

void DecoupledExecutor::Record(const Run& run, const absl::Status& status) {
  const absl::Time now = absl::Now();
  const ResponseSample::Kind kind = status.ok() ? ResponseSample::Kind::kEmpty
                                    : absl::IsCancelled(status)
                                        ? ResponseSample::Kind::kCancelled
                                        : ResponseSample::Kind::kFailure;
  own_statistics().ResponseDone(
      {.index = run.next, .kind = kind, .time = now - run.told});
  // The batcher has counted the request when it was computed.
  if (parts_.batches != nullptr) return;
  const RequestSample request{.code = status.code(),
                              .rows = run.inputs.rows,
                              .total = now - run.arrival,
                              .compute = now - run.arrival};
  statistics_.RequestDone(request, now);
  const BatchSample batch{.code = status.code(),
                          .requests = 1,
                          .rows = request.rows,
                          .compute = request.compute};
  statistics_.BatchDone(batch);
  if (parts_.observer == nullptr) return;
  parts_.observer->BatchDone(batch);
  parts_.observer->RequestDone(request);
}

// -------------------------------------------------------------------- loops

std::shared_ptr<CallExecutor> DecoupleLoop(const VersionFacts& facts,
                                           std::shared_ptr<Batcher> batcher,
                                           WakeTimer* timer) {
  DecoupledParts parts;
  parts.label = facts.label;
  parts.max_requests = facts.max_queue_size;
  for (const TensorFormat& output : facts.outputs) {
    parts.answer_bytes += output.row_bytes;
  }
  parts.make_source =
      [stacked = facts.stacked](
          const InferenceCall& call,
          absl::Span<const absl::Span<const std::byte>> outputs) {
        return MakeLoopResponses(
            {.outputs = outputs, .shapes = call.output_shapes}, stacked);
      };
  parts.timer = timer;
  parts.batches = std::move(batcher);
  return std::make_shared<DecoupledExecutor>(std::move(parts));
}

}  // namespace gpupool::server
