#include "server/serving/sequence_executor.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "server/serving/tensor/data_type.h"
#include "server/serving/tensor/held_elements.h"

namespace gpupool::server {
namespace {

absl::Span<const std::byte> BytesOfText(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()),
                             text.size());
}

}  // namespace

// A request on its way through the batcher.
class SequenceExecutor::Step : public InferenceCall {
 public:
  // Launching: Enqueue has not returned. Whoever moves the step to its last
  // phase second tells the queue that it is done, so that steps that are
  // answered at once make a loop and no recursion.
  enum class Phase { kLaunching, kLaunched, kAnswered };

  Step(std::shared_ptr<SequenceExecutor> executor, SequenceStep step)
      : call(step.call),
        state(std::move(step.state)),
        id(step.call->sequence.id),
        executor_(std::move(executor)) {}

  void OnAnswer(
      const absl::Status& status,
      absl::Span<const absl::Span<const std::byte>> outputs) override {
    // The executor may let go of the step in it.
    const std::shared_ptr<SequenceExecutor> executor = executor_;
    executor->TakeAnswer(*this, status, outputs);
  }

  InferenceCall* const call;  // gone when it was answered
  const std::shared_ptr<SequenceTensors> state;
  const SequenceId id;
  std::vector<std::string> controls;  // bytes of each control
  absl::Status outcome;               // set before the phase is kAnswered
  std::atomic<Phase> phase{Phase::kLaunching};
  std::atomic<bool> cancelled{false};

 private:
  const std::shared_ptr<SequenceExecutor> executor_;
};

SequenceExecutor::SequenceExecutor(SequenceParts parts, uint32_t max_waiting)
    : parts_(std::move(parts)),
      plan_(*parts_.plan),
      queue_({.label = plan_.label,
              .max_sequences = plan_.max_sequences,
              .max_waiting = max_waiting,
              .max_idle = plan_.max_idle}) {}

SequenceExecutor::~SequenceExecutor() = default;

// -------------------------------------------------------------------- calls

absl::Status SequenceExecutor::Check(const InferenceCall& call) const {
  if (call.inputs.rows != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "inference request to model ", plan_.label,
        " must specify batch-size 1 due to requirements of sequence batcher; "
        "it has ",
        call.inputs.rows, " rows: send one for each request of a sequence"));
  }
  for (const SequencePlan::Control& control : plan_.controls) {
    if (control.kind != v1::SequenceOptions::Control::ID) continue;
    RETURN_IF_ERROR(SequenceNumber(plan_, control, call.sequence.id).status());
  }
  return absl::OkStatus();
}

void SequenceExecutor::Enqueue(InferenceCall* call) {
  const absl::Time now = absl::Now();
  call->waits_since = now;
  if (call->stages != nullptr) call->stages->arrival = now;
  const absl::Status checked = Check(*call);
  if (!checked.ok()) return Refuse({{call, checked}});
  Work work;
  {
    absl::MutexLock lock(&mutex_);
    work = TakeWork(queue_.Add(call, now));
  }
  Do(std::move(work));
}

void SequenceExecutor::Cancel(InferenceCall* call) {
  std::shared_ptr<Step> step;
  Work work;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = steps_.find(call);
    if (found != steps_.end()) {
      step = found->second;
      // With the lock, so that TakeAnswer sees it or has taken the step. If the
      // step is not in the batcher yet, who launches it sees it, too.
      step->cancelled = true;
    } else {
      work = TakeWork(queue_.Remove(
          call, absl::CancelledError("the client cancelled the request"),
          absl::Now()));
    }
  }
  if (step != nullptr) return parts_.batches->Cancel(step.get());
  Do(std::move(work));
}

void SequenceExecutor::Drain() {
  Work work;
  {
    absl::MutexLock lock(&mutex_);
    work = TakeWork(queue_.Drain());
  }
  parts_.batches->Drain();
  Do(std::move(work));
}

void SequenceExecutor::Close(const absl::Status& status) {
  Work work;
  {
    absl::MutexLock lock(&mutex_);
    work = TakeWork(queue_.Close(status));
  }
  Do(std::move(work));
  parts_.batches->Close(status);
}

void SequenceExecutor::CountRefused(absl::StatusCode code) {
  parts_.batches->CountRefused(code);
}

void SequenceExecutor::RecordCache(const CacheSample& sample) {
  parts_.batches->RecordCache(sample);
}

const VersionStatistics& SequenceExecutor::statistics() const {
  return parts_.batches->statistics();
}

// --------------------------------------------------------------------- work

SequenceExecutor::Work SequenceExecutor::TakeWork(SequenceEffects effects) {
  Work work;
  work.refusals = std::move(effects.refusals);
  for (SequenceStep& ready : effects.steps) {
    work.steps.push_back(
        std::make_shared<Step>(shared_from_this(), std::move(ready)));
    steps_[work.steps.back()->call] = work.steps.back();
  }
  return work;
}

void SequenceExecutor::Do(Work work) {
  Refuse(work.refusals);
  for (size_t i = 0; i < work.steps.size(); ++i) {
    const std::shared_ptr<Step> step = std::move(work.steps[i]);
    Prepare(*step);
    parts_.batches->Enqueue(step.get());
    if (step->phase.exchange(Step::Phase::kLaunched) ==
        Step::Phase::kAnswered) {
      Work more = EndStep(*step);
      Refuse(more.refusals);
      work.steps.insert(work.steps.end(),
                        std::make_move_iterator(more.steps.begin()),
                        std::make_move_iterator(more.steps.end()));
    } else if (step->cancelled) {
      parts_.batches->Cancel(step.get());
    }
  }
  SetAlarm();
}

void SequenceExecutor::Refuse(const std::vector<SequenceRefusal>& refusals) {
  for (const SequenceRefusal& refusal : refusals) {
    parts_.batches->CountRefused(refusal.status.code());
    refusal.call->OnAnswer(refusal.status, {});
  }
}

// Fills in the inputs of the model. Nothing is copied but the controls.
void SequenceExecutor::Prepare(Step& step) const {
  const InferenceCall& call = *step.call;
  if (step.state->empty()) {
    for (const SequencePlan::State& state : plan_.states) {
      step.state->push_back(state.initial.empty()
                                ? std::string(state.bytes, '\0')
                                : state.initial);
    }
  }
  for (const SequencePlan::Control& control : plan_.controls) {
    if (control.kind == v1::SequenceOptions::Control::ID) {
      // Check has seen that there is a number.
      step.controls.push_back(
          *SequenceNumber(plan_, control, call.sequence.id));
      continue;
    }
    const bool on = control.kind == v1::SequenceOptions::Control::READY ||
                    (control.kind == v1::SequenceOptions::Control::START &&
                     call.sequence.start) ||
                    (control.kind == v1::SequenceOptions::Control::END &&
                     call.sequence.end);
    step.controls.push_back(on ? control.when_true : control.when_false);
  }
  step.inputs.rows = call.inputs.rows;
  step.inputs.sizes = call.inputs.sizes;
  step.inputs.served = call.inputs.served;
  for (const SequencePlan::Input& input : plan_.origins) {
    switch (input.origin) {
      case SequencePlan::Origin::kClient:
        step.inputs.bytes.push_back(call.inputs.bytes[input.index]);
        break;
      case SequencePlan::Origin::kControl:
        step.inputs.bytes.push_back(BytesOfText(step.controls[input.index]));
        break;
      case SequencePlan::Origin::kState:
        step.inputs.bytes.push_back(BytesOfText((*step.state)[input.index]));
        break;
    }
  }
  step.deadline = call.deadline;
  step.queue_deadline = call.queue_deadline;
  step.waits_since = call.waits_since;
  step.stages = call.stages;
}

// ------------------------------------------------------------------ answers

void SequenceExecutor::TakeAnswer(
    Step& step, const absl::Status& status,
    absl::Span<const absl::Span<const std::byte>> outputs) {
  std::shared_ptr<Step> keep_alive;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = steps_.find(step.call);
    keep_alive = std::move(found->second);
    steps_.erase(found);
  }
  step.outcome = status;
  if (status.ok()) step.outcome = CheckAwaited(step);
  if (step.outcome.ok()) step.outcome = KeepState(step, outputs);
  AnswerCall(step, step.outcome, outputs);
  if (step.phase.exchange(Step::Phase::kAnswered) == Step::Phase::kLaunching) {
    return;  // Do goes on
  }
  Do(EndStep(step));
}

absl::Status SequenceExecutor::CheckAwaited(const Step& step) const {
  if (step.cancelled) {
    return absl::CancelledError(absl::StrCat(
        "the client cancelled the request while model ", plan_.label,
        " computed it; sequence ", step.id.Shown(), " has ended"));
  }
  if (step.deadline <= absl::Now()) {
    return absl::DeadlineExceededError(
        absl::StrCat("the request's deadline passed while model ", plan_.label,
                     " computed it; sequence ", step.id.Shown(), " has ended"));
  }
  return absl::OkStatus();
}

absl::Status SequenceExecutor::KeepState(
    Step& step, absl::Span<const absl::Span<const std::byte>> outputs) const {
  // The worker's answer is untrusted input. All is checked before anything
  // changes.
  for (const SequencePlan::State& state : plan_.states) {
    const uint64_t bytes = outputs[state.output].size();
    if (bytes == state.held_bytes) continue;
    return absl::InternalError(absl::StrCat(
        "output '", plan_.outputs[state.output].name, "' of model ",
        plan_.label, " has ", bytes, " bytes, but as a state it has ",
        state.held_bytes, "; the sequence has ended"));
  }
  for (size_t i = 0; i < plan_.states.size(); ++i) {
    const SequencePlan::State& state = plan_.states[i];
    CopyFromHeld(state.data_type, outputs[state.output],
                 reinterpret_cast<std::byte*>((*step.state)[i].data()));
  }
  return absl::OkStatus();
}

void SequenceExecutor::AnswerCall(
    Step& step, const absl::Status& status,
    absl::Span<const absl::Span<const std::byte>> outputs) const {
  if (!status.ok()) return step.call->OnAnswer(status, {});
  absl::InlinedVector<absl::Span<const std::byte>, 4> answered;
  step.call->output_shapes.clear();
  for (const size_t index : plan_.answered) {
    answered.push_back(outputs[index]);
    step.call->output_shapes.push_back(std::move(step.output_shapes[index]));
  }
  step.call->OnAnswer(status, answered);
}

SequenceExecutor::Work SequenceExecutor::EndStep(const Step& step) {
  absl::MutexLock lock(&mutex_);
  return TakeWork(queue_.Done(step.id, step.outcome, absl::Now()));
}

// --------------------------------------------------------------------- time

// Also reports the numbers, since something has changed.
void SequenceExecutor::SetAlarm() {
  absl::Time time;
  {
    absl::MutexLock lock(&mutex_);
    // With the lock, so that the last report is the newest.
    if (parts_.observer != nullptr) {
      parts_.observer->Sequences(
          {.active = queue_.active(), .waiting = queue_.waiting()});
    }
    time = queue_.next_event();
    if (time >= alarm_) time = absl::InfiniteFuture();
    alarm_ = std::min(alarm_, time);
  }
  if (time == absl::InfiniteFuture()) return;
  // Weakly, since a pending alarm must not keep an unloaded version alive.
  parts_.timer->CallAt(time, [weak = weak_from_this()] {
    const std::shared_ptr<SequenceExecutor> self = weak.lock();
    if (self != nullptr) self->OnAlarm();
  });
}

void SequenceExecutor::OnAlarm() {
  Work work;
  {
    absl::MutexLock lock(&mutex_);
    alarm_ = absl::InfiniteFuture();
    work = TakeWork(queue_.Expire(absl::Now()));
  }
  Do(std::move(work));
}

}  // namespace gpupool::server
