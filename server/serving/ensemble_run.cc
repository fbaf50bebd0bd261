#include "server/serving/ensemble_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "server/serving/tensor/data_type.h"
#include "server/serving/tensor/held_elements.h"
#include "server/serving/tensor/tensor_view.h"

namespace gpupool::server {
namespace {

absl::Span<const std::byte> AsBytes(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()),
                             text.size());
}

std::string AsText(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool IsReached(absl::Time time) { return time != absl::InfinitePast(); }

}  // namespace

class EnsembleRun::StepCall : public InferenceCall {
 public:
  StepCall(EnsembleRun* run, size_t index, VersionHandle version)
      : index(index), version(std::move(version)), run_(run) {
    stages = &times;
  }

  void OnAnswer(
      const absl::Status& status,
      absl::Span<const absl::Span<const std::byte>> outputs) override {
    run_->TakeAnswer(*this, status, outputs);
  }

  const size_t index;
  StageTimes times;
  // Written by the thread that starts or answers the step.
  StepTimes told;
  absl::Duration copy_out;
  // Guarded by the run's mutex. Null after the end.
  VersionHandle version;
  bool queued = false;  // Enqueue has returned

 private:
  EnsembleRun* const run_;
};

EnsembleRun::EnsembleRun(std::shared_ptr<const EnsembleBinding> binding,
                         std::vector<VersionHandle> versions,
                         InferenceCall* call, Ended ended)
    : binding_(std::move(binding)),
      call_(call),
      ended_(std::move(ended)),
      tensors_(binding_->graph->tensors.size()) {
  for (size_t i = 0; i < versions.size(); ++i) {
    steps_.push_back(
        std::make_unique<StepCall>(this, i, std::move(versions[i])));
    missing_.push_back(binding_->graph->steps[i].waits);
  }
}

EnsembleRun::~EnsembleRun() = default;

void EnsembleRun::Start() {
  std::vector<size_t> ready;
  {
    absl::MutexLock lock(&mutex_);
    for (size_t i = 0; i < missing_.size(); ++i) {
      if (missing_[i] == 0) ready.push_back(i);
    }
    unanswered_ = ready.size();
  }
  const std::shared_ptr<EnsembleRun> keep_alive = shared_from_this();
  for (const size_t index : ready) StartStep(index);
}

void EnsembleRun::Cancel(const absl::Status& status) {
  std::vector<Waiting> waiting;
  {
    absl::MutexLock lock(&mutex_);
    if (!status_.ok()) return;
    waiting = Fail(status);
  }
  TakeOut(waiting);
}

std::vector<EnsembleRun::Waiting> EnsembleRun::Fail(
    const absl::Status& status) {
  status_ = status;
  std::vector<Waiting> waiting;
  for (const std::unique_ptr<StepCall>& step : steps_) {
    if (step->queued && step->version != nullptr) {
      waiting.push_back({step->version, step.get()});
    }
  }
  return waiting;
}

void EnsembleRun::TakeOut(const std::vector<Waiting>& waiting) {
  for (const Waiting& entry : waiting) {
    entry.version->executor().Cancel(entry.step);
  }
}

// Fills in the inputs of a step, all of which are there.
absl::Status EnsembleRun::Prepare(StepCall& step,
                                  const ServedVersion& version) {
  const VersionFacts& facts = version.facts();
  const BoundStep& bound = binding_->steps[step.index];
  std::vector<std::vector<int64_t>> shapes(facts.inputs.size());
  std::vector<TensorView> views(facts.inputs.size());
  for (size_t i = 0; i < facts.inputs.size(); ++i) {
    const auto tensor = static_cast<size_t>(bound.inputs[i]);
    views[i].name = facts.inputs[i].name;
    views[i].data_type = DataTypeName(facts.inputs[i].data_type);
    if (tensor < binding_->facts.inputs.size()) {
      shapes[i] = binding_->facts.inputs[tensor].Shape(call_->inputs.rows);
      views[i].bytes = call_->inputs.bytes[tensor];
    } else {
      shapes[i] = tensors_[tensor].row_shape;
      if (binding_->facts.batched) {
        shapes[i].insert(shapes[i].begin(), call_->inputs.rows);
      }
      views[i].bytes = AsBytes(tensors_[tensor].bytes);
    }
    views[i].shape = shapes[i];
  }
  ASSIGN_OR_RETURN(step.inputs,
                   CheckInputs({.label = facts.label,
                                .formats = facts.inputs,
                                .max_batch_size = facts.max_batch_size,
                                .dimensions = facts.dimensions},
                               views));
  step.deadline = call_->deadline;
  step.queue_deadline = call_->queue_deadline;
  if (facts.takes_sequences) step.sequence = call_->sequence;
  return absl::OkStatus();
}

// The caller keeps the run alive.
void EnsembleRun::StartStep(size_t index) {
  StepCall& step = *steps_[index];
  VersionHandle version;
  absl::Status failed;
  {
    absl::MutexLock lock(&mutex_);
    version = step.version;
    failed = status_;
  }
  if (failed.ok()) {
    step.told.begin = absl::Now();
    failed = Prepare(step, *version);
  }
  if (!failed.ok()) return EndStep(step, failed);
  version->executor().Enqueue(&step);
  {
    absl::MutexLock lock(&mutex_);
    step.queued = true;
    // Fail does not see steps that were not queued yet.
    if (status_.ok() || step.version == nullptr) return;
  }
  version->executor().Cancel(&step);
}

void EnsembleRun::TakeAnswer(
    StepCall& step, const absl::Status& status,
    absl::Span<const absl::Span<const std::byte>> outputs) {
  const absl::Time begin = absl::Now();
  if (status.ok()) KeepOutputs(step, outputs);
  step.copy_out = absl::Now() - begin;
  EndStep(step, status);
}

// Copies the outputs that somebody wants out of the slot.
void EnsembleRun::KeepOutputs(
    const StepCall& step,
    absl::Span<const absl::Span<const std::byte>> outputs) {
  const BoundStep& bound = binding_->steps[step.index];
  VersionHandle version;
  {
    absl::MutexLock lock(&mutex_);
    version = step.version;
  }
  for (size_t i = 0; i < bound.outputs.size(); ++i) {
    if (bound.outputs[i] < 0) continue;
    const auto index = static_cast<size_t>(bound.outputs[i]);
    Tensor& tensor = tensors_[index];
    tensor.row_shape = step.output_shapes[i];
    const v1::DataType type = version->facts().outputs[i].data_type;
    const v1::DataType held = HeldType(type);
    if (held == type) {
      tensor.bytes = AsText(outputs[i]);
      continue;
    }
    tensor.bytes.resize(outputs[i].size() / ElementBytes(held) *
                        ElementBytes(type));
    CopyFromHeld(type, outputs[i],
                 reinterpret_cast<std::byte*>(tensor.bytes.data()));
    if (binding_->graph->tensors[index].is_output) {
      tensor.held = AsText(outputs[i]);
    }
  }
}

std::vector<size_t> EnsembleRun::NextSteps(size_t index) {
  std::vector<size_t> ready;
  const EnsembleGraph& graph = *binding_->graph;
  for (const EnsembleGraph::Use& output : graph.steps[index].outputs) {
    for (const int reader :
         graph.tensors[static_cast<size_t>(output.tensor)].readers) {
      const auto next = static_cast<size_t>(reader);
      if (--missing_[next] == 0) ready.push_back(next);
    }
  }
  return ready;
}

// Starts what waited for the step, or ends the run.
void EnsembleRun::EndStep(StepCall& step, const absl::Status& status) {
  const std::shared_ptr<EnsembleRun> keep_alive = shared_from_this();
  step.told.end = absl::Now();
  step.told.code = status.code();
  std::vector<size_t> ready;
  std::vector<Waiting> waiting;
  VersionHandle released;  // let go without the lock
  absl::Status first;
  bool ended = false;
  {
    absl::MutexLock lock(&mutex_);
    released = std::move(step.version);
    step.version = nullptr;
    if (released != nullptr) {
      step.told.model = released->facts().model;
      step.told.version = released->facts().version;
      step.told.device = released->device();
    }
    if (!status.ok() && status_.ok()) {
      waiting = Fail(absl::Status(
          status.code(), absl::StrCat(binding_->steps[step.index].text, ": ",
                                      status.message())));
    } else if (status_.ok()) {
      ready = NextSteps(step.index);
    }
    unanswered_ += ready.size();
    ended = --unanswered_ == 0;
    first = status_;
  }
  TakeOut(waiting);
  for (const size_t index : ready) StartStep(index);
  if (ended) ended_(*this, first);
}

EnsembleTimes EnsembleRun::times() const {
  EnsembleTimes sums;
  for (const std::unique_ptr<StepCall>& step : steps_) {
    const StageTimes& stages = step->times;
    if (!IsReached(stages.answered)) continue;
    const absl::Duration away = stages.answered - stages.submitted;
    sums.queue += stages.taken - stages.arrival + (away - stages.compute);
    sums.copy_in += stages.submitted - stages.taken;
    sums.compute += stages.compute;
    sums.copy_out += step->copy_out;
  }
  return sums;
}

void EnsembleRun::TellSteps() const {
  for (const std::unique_ptr<StepCall>& step : steps_) {
    if (!IsReached(step->told.begin)) continue;
    call_->steps->push_back(step->told);
    call_->steps->back().stages = step->times;
  }
}

void EnsembleRun::Answer(const absl::Status& status) {
  if (call_->steps != nullptr) TellSteps();
  if (!status.ok()) return call_->OnAnswer(status, {});
  std::vector<absl::Span<const std::byte>> outputs;
  call_->output_shapes.clear();
  for (const int output : binding_->graph->outputs) {
    const Tensor& tensor = tensors_[static_cast<size_t>(output)];
    outputs.push_back(
        AsBytes(tensor.held.empty() ? tensor.bytes : tensor.held));
    call_->output_shapes.push_back(tensor.row_shape);
  }
  call_->OnAnswer(status, outputs);
}

}  // namespace gpupool::server
