#include "server/serving/sequence_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gpupool::server {

SequenceQueue::SequenceQueue(SequenceQueueOptions options)
    : options_(std::move(options)) {}

// ----------------------------------------------------------------- admission

absl::Status SequenceQueue::Admit(const InferenceCall& call,
                                  Sequence* known) const {
  if (!closed_.ok()) return closed_;
  const SequencePlace& place = call.sequence;
  if (!place.id.IsSet()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "inference request to model ", options_.label,
        " must specify a non-zero or non-empty correlation ID: the model "
        "serves sequences; send the parameter sequence_id"));
  }
  if (!place.start && (known == nullptr || !known->open)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "inference request for sequence ", place.id.Shown(), " to model ",
        options_.label,
        " must specify the START flag on the first request of the sequence. "
        "The server has no state of it: it was not started, has ended, had no "
        "request for ",
        absl::FormatDuration(options_.max_idle),
        ", or a request of it failed; start it again with sequence_start"));
  }
  if (draining_ && known == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "model ", options_.label, " is being unloaded; start sequence ",
        place.id.Shown(), " again"));
  }
  // A call that runs at once takes no room. Otherwise a full backlog would keep
  // the sequences from ending that it waits for.
  const bool runs = known != nullptr && known->placed && !known->running &&
                    known->waiting.empty();
  if (runs || waiting_ < options_.max_waiting) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "Exceeds maximum queue size of ", options_.max_waiting,
      " requests for model ", options_.label,
      known == nullptr
          ? std::string("; retry later")
          : absl::StrCat(", so sequence ", place.id.Shown(),
                         " ends before it; start the sequence again later")));
}

SequenceEffects SequenceQueue::Add(InferenceCall* call, absl::Time now) {
  SequenceEffects effects;
  const auto found = sequences_.find(call->sequence.id);
  Sequence* known = found == sequences_.end() ? nullptr : &found->second;
  const absl::Status admitted = Admit(*call, known);
  if (!admitted.ok()) {
    effects.refusals.push_back({call, admitted});
    // Later calls must not be computed as if this one had been.
    if (absl::IsUnavailable(admitted) && known != nullptr) {
      known->open = false;
      Settle(*known, now, &effects);
    }
    return effects;
  }
  Sequence& sequence = known == nullptr ? Begin(call->sequence.id) : *known;
  sequence.waiting.push_back(call);
  ++waiting_;
  sequence.open = !call->sequence.end;
  NoteExpiry(*call);
  Settle(sequence, now, &effects);
  FillPlaces(&effects);
  return effects;
}

SequenceQueue::Sequence& SequenceQueue::Begin(const SequenceId& id) {
  Sequence& sequence = sequences_[id];
  sequence.id = id;
  MoveTo(&backlog_, sequence);
  return sequence;
}

void SequenceQueue::MoveTo(std::list<Sequence*>* list, Sequence& sequence) {
  if (sequence.list != nullptr) sequence.list->erase(sequence.position);
  sequence.list = list;
  if (list != nullptr) {
    sequence.position = list->insert(list->end(), &sequence);
  }
}

void SequenceQueue::End(Sequence& sequence) {
  MoveTo(nullptr, sequence);
  if (sequence.placed) --places_used_;
  const SequenceId id = sequence.id;  // outlives the entry
  sequences_.erase(id);
}

// ------------------------------------------------------------------ progress

void SequenceQueue::Launch(Sequence& sequence, SequenceEffects* effects) {
  MoveTo(nullptr, sequence);
  InferenceCall* const call = sequence.waiting.front();
  sequence.waiting.pop_front();
  --waiting_;
  if (call->sequence.start) {
    sequence.state = std::make_shared<SequenceTensors>();
  }
  sequence.running = true;
  sequence.running_ends = call->sequence.end;
  effects->steps.push_back({call, sequence.state});
}

void SequenceQueue::Settle(Sequence& sequence, absl::Time now,
                           SequenceEffects* effects) {
  if (sequence.running) return;
  if (!sequence.waiting.empty()) {
    if (sequence.placed) Launch(sequence, effects);
    return;
  }
  if (!sequence.open) return End(sequence);
  sequence.idle_since = now;
  MoveTo(&idle_, sequence);
}

void SequenceQueue::FillPlaces(SequenceEffects* effects) {
  while (places_used_ < options_.max_sequences && !backlog_.empty()) {
    Sequence& sequence = *backlog_.front();
    sequence.placed = true;
    ++places_used_;
    Launch(sequence, effects);
  }
}

// Puts the sequence behind those that wait for a place.
void SequenceQueue::GiveUpPlace(Sequence& sequence) {
  sequence.placed = false;
  --places_used_;
  MoveTo(&backlog_, sequence);
}

SequenceEffects SequenceQueue::Done(const SequenceId& id,
                                    const absl::Status& status,
                                    absl::Time now) {
  SequenceEffects effects;
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return effects;
  Sequence& sequence = found->second;
  sequence.running = false;
  const bool ended = sequence.running_ends || !status.ok();
  if (!status.ok() && !sequence.running_ends) {
    Cut(sequence, 0, status, &effects);
  }
  // A sequence that begins anew must not keep others from beginning.
  if (ended && !sequence.waiting.empty() && !backlog_.empty()) {
    GiveUpPlace(sequence);
  }
  Settle(sequence, now, &effects);
  FillPlaces(&effects);
  return effects;
}

// ------------------------------------------------------------------ refusals

void SequenceQueue::TakeOut(Sequence& sequence, size_t index,
                            const absl::Status& status,
                            SequenceEffects* effects) {
  const auto at = sequence.waiting.begin() + static_cast<std::ptrdiff_t>(index);
  effects->refusals.push_back({*at, status});
  sequence.waiting.erase(at);
  --waiting_;
}

void SequenceQueue::Cut(Sequence& sequence, size_t index,
                        const absl::Status& reason, SequenceEffects* effects) {
  const absl::Status refused = absl::AbortedError(absl::StrCat(
      "a request before this one of sequence ", sequence.id.Shown(),
      " to model ", options_.label, " failed (", reason.message(),
      "), which ends the sequence; start it again with sequence_start"));
  while (index < sequence.waiting.size()) {
    if (sequence.waiting[index]->sequence.start) return;
    TakeOut(sequence, index, refused, effects);
  }
  sequence.open = false;
}

void SequenceQueue::RefuseFrom(Sequence& sequence, size_t index,
                               const absl::Status& status,
                               SequenceEffects* effects) {
  const bool ends = sequence.waiting[index]->sequence.end;
  TakeOut(sequence, index, status, effects);
  // Nothing depends on the last request of a sequence.
  if (!ends) Cut(sequence, index, status, effects);
  // Unless another one begins, the sequence is over.
  if (ends && index == sequence.waiting.size()) sequence.open = false;
}

SequenceEffects SequenceQueue::Remove(InferenceCall* call,
                                      const absl::Status& status,
                                      absl::Time now) {
  SequenceEffects effects;
  const auto found = sequences_.find(call->sequence.id);
  if (found == sequences_.end()) return effects;
  Sequence& sequence = found->second;
  const auto at =
      std::find(sequence.waiting.begin(), sequence.waiting.end(), call);
  if (at == sequence.waiting.end()) return effects;
  RefuseFrom(sequence, static_cast<size_t>(at - sequence.waiting.begin()),
             status, &effects);
  Settle(sequence, now, &effects);
  FillPlaces(&effects);
  return effects;
}

SequenceEffects SequenceQueue::Drain() {
  draining_ = true;
  const absl::Status refused = absl::UnavailableError(
      absl::StrCat("model ", options_.label,
                   " is being unloaded; start the sequence again"));
  SequenceEffects effects;
  while (!backlog_.empty()) {
    Sequence& sequence = *backlog_.front();
    while (!sequence.waiting.empty()) TakeOut(sequence, 0, refused, &effects);
    End(sequence);
  }
  return effects;
}

SequenceEffects SequenceQueue::Close(const absl::Status& status) {
  closed_ = status;
  SequenceEffects effects;
  for (auto it = sequences_.begin(); it != sequences_.end();) {
    Sequence& sequence = (it++)->second;  // Settle may end it
    while (!sequence.waiting.empty()) TakeOut(sequence, 0, status, &effects);
    sequence.open = false;
    Settle(sequence, absl::InfinitePast(), &effects);
  }
  return effects;
}

// ---------------------------------------------------------------------- time

absl::Status SequenceQueue::Expiry(const InferenceCall& call,
                                   absl::Time now) const {
  if (call.deadline <= now) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the request's deadline passed while sequence ",
        call.sequence.id.Shown(), " waited for model ", options_.label));
  }
  if (call.queue_deadline <= now) {
    return absl::UnavailableError(absl::StrCat(
        "Request timeout expired while sequence ", call.sequence.id.Shown(),
        " waited for model ", options_.label));
  }
  return absl::OkStatus();
}

void SequenceQueue::NoteExpiry(const InferenceCall& call) {
  next_expiry_ = std::min({next_expiry_, call.deadline, call.queue_deadline});
}

void SequenceQueue::ExpireCalls(Sequence& sequence, absl::Time now,
                                SequenceEffects* effects) {
  for (size_t i = 0; i < sequence.waiting.size();) {
    const absl::Status expiry = Expiry(*sequence.waiting[i], now);
    if (expiry.ok()) {
      NoteExpiry(*sequence.waiting[i]);
      ++i;
    } else {
      RefuseFrom(sequence, i, expiry, effects);
    }
  }
}

SequenceEffects SequenceQueue::Expire(absl::Time now) {
  SequenceEffects effects;
  if (next_expiry_ <= now) {
    next_expiry_ = absl::InfiniteFuture();
    for (auto it = sequences_.begin(); it != sequences_.end();) {
      Sequence& sequence = (it++)->second;  // Settle may end it
      if (sequence.waiting.empty()) continue;
      ExpireCalls(sequence, now, &effects);
      Settle(sequence, now, &effects);
    }
  }
  while (!idle_.empty() &&
         idle_.front()->idle_since + options_.max_idle <= now) {
    End(*idle_.front());
  }
  FillPlaces(&effects);
  return effects;
}

absl::Time SequenceQueue::next_event() const {
  if (idle_.empty()) return next_expiry_;
  return std::min(next_expiry_, idle_.front()->idle_since + options_.max_idle);
}

}  // namespace gpupool::server
