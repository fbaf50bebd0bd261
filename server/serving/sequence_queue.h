// Decides which request of which sequence is computed next. The requests of a
// sequence are computed one after the other, in the order in which they came.
// At most max_sequences sequences have a place at a time. The others wait until
// one of these ends, in the order in which they began.
//
// A request that fails takes its sequence with it: requests that wait behind it
// are refused up to the next one that starts the sequence anew, and so are
// later ones. No request is ever computed with the state of another point of
// its sequence.
//
// Time is passed in. Thread-safety: none. Ownership: calls are borrowed. Each
// one leaves the queue once, as a step or as a refusal.
//
// Invariants
//  1. A sequence is in one of three states: it waits in backlog_, it has a
//     place, or it is unknown. Only one with a place has a step that runs.
//  2. A sequence with a place that has nothing to do is in idle_.
//  3. The first call that waits has a start, unless the sequence has a state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/serving/inference_call.h"
#include "server/serving/sequence_id.h"

namespace gpupool::server {

struct SequenceQueueOptions {
  std::string label;  // for messages: "'digits' version 1"
  uint32_t max_sequences = 1;
  uint32_t max_waiting = 0;  // requests, of all sequences
  absl::Duration max_idle = absl::Seconds(1);
};

// The state of a sequence: the bytes of each tensor. Empty before the first
// step.
using SequenceTensors = std::vector<std::string>;

// A call that is to be computed now. The state is its sequence's; nobody else
// touches it until Done.
struct SequenceStep {
  InferenceCall* call = nullptr;
  std::shared_ptr<SequenceTensors> state;
};

struct SequenceRefusal {
  InferenceCall* call = nullptr;
  absl::Status status;
};

// Work for the owner after a change of the queue.
struct SequenceEffects {
  std::vector<SequenceStep> steps;
  std::vector<SequenceRefusal> refusals;
};

class SequenceQueue {
 public:
  explicit SequenceQueue(SequenceQueueOptions options);

  // Adds a call. It is refused with
  //   * InvalidArgument: it has no sequence_id, or no start and its sequence is
  //     not known
  //   * Unavailable: too many calls wait; the version is being unloaded
  SequenceEffects Add(InferenceCall* call, absl::Time now);
  // Records that the step of this sequence was answered.
  SequenceEffects Done(const SequenceId& id, const absl::Status& status,
                       absl::Time now);
  // Refuses a call with `status` if it waits. The call must not have been
  // destroyed.
  SequenceEffects Remove(InferenceCall* call, const absl::Status& status,
                         absl::Time now);
  // Refuses calls whose time is over, and ends sequences that were idle for too
  // long. Cheap before next_event().
  SequenceEffects Expire(absl::Time now);
  // Refuses sequences that have no place, now and from now on.
  SequenceEffects Drain();
  // Refuses all waiting and all later calls.
  SequenceEffects Close(const absl::Status& status);

  // Returns a lower bound of the time at which Expire has something to do.
  absl::Time next_event() const;
  size_t active() const { return places_used_; }  // sequences with a place
  size_t waiting() const { return waiting_; }     // calls

 private:
  struct Sequence {
    SequenceId id;
    std::deque<InferenceCall*> waiting;  // oldest first
    std::shared_ptr<SequenceTensors> state;
    bool open = true;  // whether the last call that was taken has no end
    bool placed = false;
    bool running = false;
    bool running_ends = false;
    // The list that has the sequence, and where; null: none.
    std::list<Sequence*>* list = nullptr;
    std::list<Sequence*>::iterator position;
    absl::Time idle_since;  // in idle_
  };

  absl::Status Admit(const InferenceCall& call, Sequence* known) const;
  Sequence& Begin(const SequenceId& id);
  void End(Sequence& sequence);
  void MoveTo(std::list<Sequence*>* list, Sequence& sequence);
  // Refuses the call at `index` with `status`, and those that depend on it.
  void RefuseFrom(Sequence& sequence, size_t index, const absl::Status& status,
                  SequenceEffects* effects);
  // Refuses the calls from `index` to the next start, with the reason.
  void Cut(Sequence& sequence, size_t index, const absl::Status& reason,
           SequenceEffects* effects);
  void TakeOut(Sequence& sequence, size_t index, const absl::Status& status,
               SequenceEffects* effects);
  void Launch(Sequence& sequence, SequenceEffects* effects);
  // Brings the sequence to the state that follows from its calls. May end it.
  void Settle(Sequence& sequence, absl::Time now, SequenceEffects* effects);
  void FillPlaces(SequenceEffects* effects);
  void GiveUpPlace(Sequence& sequence);
  absl::Status Expiry(const InferenceCall& call, absl::Time now) const;
  void ExpireCalls(Sequence& sequence, absl::Time now,
                   SequenceEffects* effects);
  void NoteExpiry(const InferenceCall& call);

  const SequenceQueueOptions options_;
  std::map<SequenceId, Sequence> sequences_;
  std::list<Sequence*> backlog_;  // without a place; the first to begin first
  std::list<Sequence*> idle_;     // the longest idle first
  size_t places_used_ = 0;
  size_t waiting_ = 0;
  bool draining_ = false;
  absl::Status closed_;
  // Lower bound of the time at which a waiting call expires.
  absl::Time next_expiry_ = absl::InfiniteFuture();
};

}  // namespace gpupool::server
