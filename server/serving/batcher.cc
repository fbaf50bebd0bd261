#include "server/serving/batcher.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

// Weight of the latest batch in the smoothed time, as in TCP's round trip time
// (RFC 6298).
constexpr double kLatestBatch = 0.125;

// A batch that waited for longer than this inside the worker found it busy with
// something else, a training step for example. A wake-up takes less.
constexpr absl::Duration kBusyWorker = absl::Milliseconds(1);

}  // namespace

struct Batcher::Batch {
  std::vector<InferenceCall*> calls;
  uint32_t rows = 0;
  std::optional<Slot> slot;  // until submitted
  std::shared_ptr<SlotRingClient> ring;
  absl::Time oldest;
  absl::Time taken;
  absl::Time submitted;
  absl::Time answered;
  absl::Duration wait;  // inside the worker
  absl::Duration compute;

  // Returns the time of copying and computing, and of the wait for a worker
  // that was busy: such a batch is not short, because a second one would have
  // been served in the same turn.
  absl::Duration Time() const {
    const absl::Duration rest = answered - submitted - compute;
    return submitted - taken + compute +
           (rest > kBusyWorker ? rest : absl::ZeroDuration());
  }

  // Fills in the stages, besides arrival and tries.
  void Tell(StageTimes* stages) const {
    stages->taken = taken;
    stages->submitted = submitted;
    stages->answered = answered;
    stages->wait = wait;
    stages->compute = compute;
    stages->batch_requests = static_cast<uint32_t>(calls.size());
    stages->batch_rows = rows;
  }
};

Batcher::Batcher(BatcherOptions options, WakeTimer* timer,
                 std::unique_ptr<VersionObserver> observer)
    : options_(std::move(options)),
      timer_(timer),
      observer_(std::move(observer)),
      statistics_(options_.batch.max_batch_size),
      ring_lost_(absl::Now()) {}

Batcher::~Batcher() = default;

// Queues under the lock; answers and launches without it.
void Batcher::Enqueue(InferenceCall* call) {
  absl::Status admitted;
  {
    absl::MutexLock lock(&mutex_);
    call->arrival_ = absl::Now();
    call->launches_ = 0;
    call->alone_ = false;
    admitted = Admit(*call);
    if (admitted.ok()) {
      queue_.push_back(call);
      NoteExpiry(*call);
      ReportQueueLength();
    }
  }
  if (admitted.ok()) {
    Pump();
  } else {
    Refuse({{call, admitted}});
  }
}

absl::Status Batcher::Admit(const InferenceCall& call) const {
  if (!closed_.ok()) return closed_;
  if (queue_.size() >= options_.max_queue_size) {
    return absl::UnavailableError(
        absl::StrCat("Exceeds maximum queue size of ", options_.max_queue_size,
                     " requests for model ", options_.label, "; retry later"));
  }
  return CheckFits(call);
}

uint32_t Batcher::RowsPerSlotOf(absl::Span<const int64_t> sizes) const {
  if (sizes.empty() && rows_per_slot_ > 0) return rows_per_slot_;
  const uint32_t rows = RowsPerSlot(FormatsOf(sizes), ring_->slot_bytes(),
                                    options_.batch.max_batch_size);
  if (sizes.empty()) rows_per_slot_ = rows;
  return rows;
}

// Returns an error for a call that never fits a slot of the present ring.
// Without a ring everything may fit the next one.
absl::Status Batcher::CheckFits(const InferenceCall& call) const {
  if (ring_ == nullptr) return absl::OkStatus();
  const uint32_t rows_per_slot = RowsPerSlotOf(call.inputs.served);
  if (call.inputs.rows <= rows_per_slot) return absl::OkStatus();
  const uint64_t bytes =
      PackedBytes(FormatsOf(call.inputs.served), call.inputs.rows);
  return absl::ResourceExhaustedError(absl::StrCat(
      "a request of ", call.inputs.rows, " rows to model ", options_.label,
      " needs ", bytes, " bytes of a slot, which has ", ring_->slot_bytes(),
      "; send at most ", rows_per_slot,
      " rows in one request or raise the server's slot size"));
}

void Batcher::Cancel(InferenceCall* call) {
  {
    absl::MutexLock lock(&mutex_);
    const auto it = std::find(queue_.begin(), queue_.end(), call);
    if (it == queue_.end()) return;
    queue_.erase(it);
    ReportQueueLength();
  }
  Refuse({{call, absl::CancelledError("the client cancelled the request")}});
  Pump();
}

void Batcher::CountRefused(absl::StatusCode code) {
  Record({.code = code}, absl::Now());
}

void Batcher::RecordCache(const CacheSample& sample) {
  statistics_.CacheDone(sample);
  if (observer_ != nullptr) observer_->CacheDone(sample);
}

void Batcher::SetRing(std::shared_ptr<SlotRingClient> ring) {
  {
    absl::MutexLock lock(&mutex_);
    waits_for_slot_ = false;
    if (ring == nullptr) {
      LoseRing(absl::Now());
    } else {
      ring_ = std::move(ring);
      rows_per_slot_ = 0;
      // Waiting calls may not fit the new ring.
      next_expiry_ = absl::InfinitePast();
    }
  }
  Pump();
}

void Batcher::LoseRing(absl::Time now) {
  if (ring_ != nullptr) ring_lost_ = now;
  ring_ = nullptr;
  next_expiry_ = absl::InfinitePast();
}

void Batcher::Drain() {
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    next_expiry_ = absl::InfinitePast();
  }
  Pump();
}

void Batcher::Close(const absl::Status& status) {
  std::vector<Refusal> refusals;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = status;
    for (InferenceCall* call : queue_) refusals.push_back({call, status});
    queue_.clear();
    ReportQueueLength();
  }
  Refuse(refusals);
}

bool Batcher::has_worker() const {
  absl::MutexLock lock(&mutex_);
  return ring_ != nullptr;
}

size_t Batcher::queue_length() const {
  absl::MutexLock lock(&mutex_);
  return queue_.size();
}

absl::Time Batcher::oldest_call() const {
  absl::MutexLock lock(&mutex_);
  absl::Time oldest = absl::InfiniteFuture();
  if (!queue_.empty()) oldest = queue_.front()->arrival_;
  if (in_flight_since_.empty()) return oldest;
  return std::min(oldest, *in_flight_since_.begin());
}

// ------------------------------------------------------------- the queue

// Returns why the call must not wait any longer, or OK.
absl::Status Batcher::Expiry(const InferenceCall& call, absl::Time now) const {
  if (call.deadline <= now) {
    return absl::DeadlineExceededError(
        absl::StrCat("the request's deadline passed while it waited for model ",
                     options_.label));
  }
  if (call.queue_deadline <= now) {
    return absl::UnavailableError(absl::StrCat(
        "Request timeout expired while it waited for model ", options_.label));
  }
  if (ring_ == nullptr && draining_) {
    return absl::UnavailableError(
        absl::StrCat("model ", options_.label,
                     " is not loaded any more; load it, or retry"));
  }
  if (ring_ == nullptr && RecoveryEnd(call) <= now) {
    return absl::UnavailableError(absl::StrCat(
        "the worker of model ", options_.label, " was lost and not back after ",
        absl::FormatDuration(options_.recovery_wait), "; retry"));
  }
  return CheckFits(call);
}

absl::Time Batcher::RecoveryEnd(const InferenceCall& call) const {
  return std::max(ring_lost_, call.arrival_) + options_.recovery_wait;
}

void Batcher::NoteExpiry(const InferenceCall& call) {
  next_expiry_ = std::min({next_expiry_, call.deadline, call.queue_deadline});
  if (ring_ == nullptr && draining_) {
    next_expiry_ = absl::InfinitePast();
  } else if (ring_ == nullptr) {
    next_expiry_ = std::min(next_expiry_, RecoveryEnd(call));
  }
}

// Moves expired calls out of the queue. Cheap while nothing can have expired.
void Batcher::TakeExpired(absl::Time now, std::vector<Refusal>* refusals) {
  if (now < next_expiry_) return;
  next_expiry_ = absl::InfiniteFuture();
  std::deque<InferenceCall*> kept;
  for (InferenceCall* call : queue_) {
    absl::Status expiry = Expiry(*call, now);
    if (expiry.ok()) {
      NoteExpiry(*call);
      kept.push_back(call);
    } else {
      refusals->push_back({call, std::move(expiry)});
    }
  }
  queue_ = std::move(kept);
  ReportQueueLength();
}

scheduler::BatchDecision Batcher::Decide(const scheduler::BatchOptions& limits,
                                         absl::Time now) const {
  absl::InlinedVector<scheduler::WaitingRequest, 64> waiting;
  const InferenceCall& first = *queue_.front();
  for (const InferenceCall* call : queue_) {
    const bool fits = !options_.computes_alone && !first.alone_ &&
                      !call->alone_ &&
                      call->inputs.served == first.inputs.served;
    // A request of other sizes counts as a full batch, so that it goes into the
    // next batch and order is kept.
    waiting.push_back(
        {fits ? call->inputs.rows : limits.max_batch_size, call->arrival_});
    if (!fits || waiting.size() > limits.max_batch_size) break;
  }
  return scheduler::DecideBatch(waiting, limits, in_flight_, now);
}

void Batcher::NoteBatchTime(absl::Duration time) {
  batch_time_ = batch_time_ == absl::InfiniteDuration()
                    ? time
                    : batch_time_ + (time - batch_time_) * kLatestBatch;
}

// Takes a batch out of the queue if the policy closes one and a slot is free.
std::unique_ptr<Batcher::Batch> Batcher::TakeBatch(
    absl::Time now, std::shared_ptr<SlotRingClient>* full_ring) {
  batch_due_ = absl::InfiniteFuture();
  if (ring_ == nullptr || waits_for_slot_) return nullptr;
  scheduler::BatchOptions limits = options_.batch;
  limits.max_in_flight = scheduler::MaxInFlight(limits, batch_time_);
  if (queue_.empty() || in_flight_ >= limits.max_in_flight) return nullptr;
  limits.max_batch_size =
      std::clamp(RowsPerSlotOf(queue_.front()->inputs.served), uint32_t{1},
                 limits.max_batch_size);
  const scheduler::BatchDecision decision = Decide(limits, now);
  if (decision.close_count == 0) {
    batch_due_ = decision.wait_until;
    return nullptr;
  }
  std::optional<Slot> slot = ring_->Acquire();
  if (!slot.has_value()) {
    if (ring_->failed()) {
      LoseRing(now);
    } else {
      waits_for_slot_ = true;
      *full_ring = ring_;
    }
    return nullptr;
  }
  auto batch = std::make_unique<Batch>();
  batch->slot = std::move(slot);
  batch->ring = ring_;
  batch->taken = now;
  const auto end = queue_.begin() + decision.close_count;
  batch->calls.assign(queue_.begin(), end);
  queue_.erase(queue_.begin(), end);
  for (InferenceCall* call : batch->calls) {
    batch->rows += call->inputs.rows;
    ++call->launches_;
  }
  ++in_flight_;
  batch->oldest = batch->calls.front()->arrival_;
  in_flight_since_.insert(batch->oldest);
  ReportQueueLength();
  return batch;
}

// Puts the calls of a lost batch back; those that had their last try are
// refused.
void Batcher::Requeue(Batch& batch, const absl::Status& status,
                      std::vector<Refusal>* refusals) {
  // Backwards to the front of the queue keeps the order of arrival.
  for (auto it = batch.calls.rbegin(); it != batch.calls.rend(); ++it) {
    InferenceCall* call = *it;
    if (closed_.ok() && call->launches_ < kMaxLaunches) {
      queue_.push_front(call);
    } else {
      refusals->push_back({call, closed_.ok() ? status : closed_});
    }
  }
  batch.calls.clear();
  next_expiry_ = absl::InfinitePast();
  ReportQueueLength();
}

// ------------------------------------------------------------ the batches

// Collects under the lock what is due, does it without the lock, and repeats
// until no batch is due.
void Batcher::Pump() {
  std::unique_ptr<Batch> batch;
  do {
    std::vector<Refusal> refusals;
    std::shared_ptr<SlotRingClient> full_ring;
    absl::Time expiry_alarm, due_alarm;
    {
      absl::MutexLock lock(&mutex_);
      const absl::Time now = absl::Now();
      TakeExpired(now, &refusals);
      batch = TakeBatch(now, &full_ring);
      const bool idle = queue_.empty();
      expiry_alarm = expiry_alarm_.Earlier(idle, next_expiry_);
      due_alarm = due_alarm_.Earlier(idle, batch_due_);
    }
    Refuse(refusals);
    SetAlarm(expiry_alarm, &Batcher::expiry_alarm_);
    SetAlarm(due_alarm, &Batcher::due_alarm_);
    if (full_ring != nullptr) WaitForSlot(*full_ring);
    if (batch != nullptr) Launch(std::move(batch));
  } while (batch != nullptr);
}

absl::Time Batcher::Alarm::Earlier(bool idle, absl::Time time) {
  if (idle || time >= set_for) return absl::InfiniteFuture();
  set_for = time;
  return time;
}

// Asks the timer weakly: a pending alarm must not keep an unloaded version
// alive.
void Batcher::SetAlarm(absl::Time time, Alarm Batcher::*alarm) {
  if (time == absl::InfiniteFuture()) return;
  timer_->CallAt(time, [weak = weak_from_this(), alarm] {
    const std::shared_ptr<Batcher> self = weak.lock();
    if (self == nullptr) return;
    {
      absl::MutexLock lock(&self->mutex_);
      (self.get()->*alarm).set_for = absl::InfiniteFuture();
    }
    self->Pump();
  });
}

void Batcher::WaitForSlot(SlotRingClient& ring) {
  ring.NotifyWhenFree([weak = weak_from_this()] {
    const std::shared_ptr<Batcher> self = weak.lock();
    if (self == nullptr) return;
    {
      absl::MutexLock lock(&self->mutex_);
      self->waits_for_slot_ = false;
    }
    self->Pump();
  });
}

// Copies the rows into the slot and submits it. Each request is copied once.
void Batcher::Launch(std::unique_ptr<Batch> batch) {
  Slot slot = *std::move(batch->slot);
  batch->slot.reset();
  const SlotFormats formats = FormatsOf(batch->calls[0]->inputs.served);
  PackHeader(formats, options_.version_id, batch->rows, &slot.header());
  uint32_t first_row = 0;
  for (const InferenceCall* call : batch->calls) {
    CopyRows(formats, call->inputs, first_row,
             {.header = slot.header(), .payload = slot.payload()});
    first_row += call->inputs.rows;
  }
  batch->submitted = absl::Now();
  const std::shared_ptr<SlotRingClient> ring = std::move(batch->ring);
  ring->Submit(std::move(slot),
               [self = shared_from_this(),
                shared = std::shared_ptr<Batch>(std::move(batch))](
                   const absl::Status& status, Slot answered) {
                 self->Settle(*shared, status, std::move(answered));
               });
}

void Batcher::Settle(Batch& batch, const absl::Status& status, Slot slot) {
  batch.answered = absl::Now();
  // The worker's figures are untrusted input.
  const absl::Duration away =
      std::max(batch.answered - batch.submitted, absl::ZeroDuration());
  batch.compute = std::clamp(absl::Nanoseconds(slot.header().compute_nanos),
                             absl::ZeroDuration(), away);
  batch.wait = std::clamp(absl::Nanoseconds(slot.header().wait_nanos),
                          absl::ZeroDuration(), away - batch.compute);
  // A worker that does not know the version has just started.
  const bool nothing_done =
      absl::IsUnavailable(status) || absl::IsNotFound(status);
  // One request's numbers, an index outside of a table for example, must not
  // refuse the others.
  const bool again = absl::IsInvalidArgument(status) && batch.calls.size() > 1;
  std::vector<Refusal> refusals;
  {
    absl::MutexLock lock(&mutex_);
    --in_flight_;
    if (status.ok()) {
      NoteBatchTime(batch.Time());
    }
    in_flight_since_.erase(in_flight_since_.find(batch.oldest));
    // The client sees Unavailable instead of NotFound: the version exists, only
    // its worker does not have it yet.
    if (nothing_done) {
      Requeue(batch, absl::UnavailableError(status.message()), &refusals);
    } else if (again) {
      for (InferenceCall* call : batch.calls) {
        call->alone_ = true;
        --call->launches_;
      }
      Requeue(batch, status, &refusals);
    }
  }
  // Launch the next batch first, so that the device does not wait for answers
  // to be written.
  Pump();
  Refuse(refusals);
  if (!nothing_done && !again) Deliver(batch, status, slot);
}

std::vector<int64_t> Batcher::RowShapeOf(const SlotTensor& tensor) const {
  // A worker's answer may have no dimensions.
  const bool batched = options_.outputs[0].batched && tensor.rank > 0;
  return {tensor.dims + (batched ? 1 : 0), tensor.dims + tensor.rank};
}

void Batcher::Deliver(const Batch& batch, const absl::Status& status,
                      Slot& slot) {
  absl::Time now = absl::Now();
  BatchSample summary{.code = status.code(),
                      .requests = static_cast<uint32_t>(batch.calls.size()),
                      .rows = batch.rows,
                      .copy_in = batch.submitted - batch.taken,
                      .compute = batch.compute,
                      .copy_out = now - batch.answered,
                      .compiled = slot.header().compiled_programs,
                      .evicted = slot.header().evicted_programs};
  statistics_.BatchDone(summary);
  if (observer_ != nullptr) observer_->BatchDone(summary);

  absl::InlinedVector<absl::Span<const std::byte>, 2> rows(
      options_.outputs.size());
  uint64_t first_row = 0;
  for (InferenceCall* call : batch.calls) {
    const uint32_t count = call->inputs.rows;
    call->output_shapes.clear();
    for (size_t i = 0; status.ok() && i < rows.size(); ++i) {
      // Slices have whole rows; the worker reports the bytes of varying
      // outputs.
      const absl::Span<const std::byte> all = slot.output(i);
      const uint64_t row_bytes = all.size() / batch.rows;
      rows[i] = all.subspan(first_row * row_bytes, count * row_bytes);
      call->output_shapes.push_back(RowShapeOf(slot.header().outputs[i]));
    }
    first_row += count;
    RequestSample sample{.code = status.code(),
                         .rows = count,
                         .total = now - Began(*call),
                         .copy_in = summary.copy_in,
                         .compute = batch.compute,
                         .copy_out = now - batch.answered};
    // The rest of the total, so that the stages add up exactly.
    sample.queue =
        sample.total - sample.copy_in - sample.compute - sample.copy_out;
    // Record first: a client with the answer may ask for the statistics at
    // once.
    Record(sample, now);
    if (call->stages != nullptr) {
      TellArrival(call);
      batch.Tell(call->stages);
    }
    call->OnAnswer(status, rows);
    now = absl::Now();
  }
}

void Batcher::Refuse(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    const absl::Time now = absl::Now();
    const absl::Duration total = now - Began(*refusal.call);
    Record({.code = refusal.status.code(),
            .rows = refusal.call->inputs.rows,
            .total = total,
            .queue = total},
           now);
    if (refusal.call->stages != nullptr) TellArrival(refusal.call);
    refusal.call->OnAnswer(refusal.status, {});
  }
}

absl::Time Batcher::Began(const InferenceCall& call) {
  return std::min(call.arrival_, call.waits_since);
}

void Batcher::TellArrival(InferenceCall* call) {
  call->stages->arrival = Began(*call);
  call->stages->tries = call->launches_;
}

void Batcher::Record(const RequestSample& sample, absl::Time now) {
  statistics_.RequestDone(sample, now);
  if (observer_ != nullptr) observer_->RequestDone(sample);
}

void Batcher::ReportQueueLength() {
  if (observer_ != nullptr) observer_->QueueLength(queue_.size());
}

}  // namespace gpupool::server
