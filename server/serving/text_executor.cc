#include "server/serving/text_executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "server/serving/text/text_elements.h"

namespace gpupool::server {

TextExecutor::TextExecutor(TextParts parts)
    : parts_(std::move(parts)), statistics_(parts_.max_batch_size) {}

void TextExecutor::Enqueue(InferenceCall* call) {
  const Waiting waiting{.call = call, .arrival = absl::Now()};
  absl::Status admitted;
  bool idle = false;
  {
    absl::MutexLock lock(&mutex_);
    admitted = closed_;
    if (admitted.ok() && queue_.size() >= parts_.max_queue_size) {
      admitted = absl::UnavailableError(
          absl::StrCat("Exceeds maximum queue size of ", parts_.max_queue_size,
                       " requests for model ", parts_.label, "; retry later"));
    }
    if (admitted.ok()) {
      queue_.push_back(waiting);
      ReportLength();
      idle = !std::exchange(working_, true);
    }
  }
  if (!admitted.ok()) return Refuse(waiting, admitted);
  if (!idle) return;
  parts_.threads->Post([self = shared_from_this()] { self->Work(); });
}

void TextExecutor::Work() {
  Waiting next;
  {
    absl::MutexLock lock(&mutex_);
    if (queue_.empty()) {
      working_ = false;
      return;
    }
    next = queue_.front();
    queue_.pop_front();
    ReportLength();
  }
  const absl::Time taken = absl::Now();
  const absl::Status in_time = CheckTime(*next.call, taken);
  if (in_time.ok()) {
    Finish(next, taken, Compute(*next.call));
  } else {
    Refuse(next, in_time);
  }
  // Other versions have their turn before the next call.
  parts_.threads->Post([self = shared_from_this()] { self->Work(); });
}

absl::Status TextExecutor::CheckTime(const InferenceCall& call,
                                     absl::Time now) const {
  if (now >= call.deadline) {
    return absl::DeadlineExceededError(
        absl::StrCat("the deadline of a request for model ", parts_.label,
                     " has passed in the queue"));
  }
  if (now < call.queue_deadline) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("Request timeout expired: a request for model ",
                   parts_.label, " has waited for longer than its timeout"));
}

absl::StatusOr<TextTensor> TextExecutor::ReadInput(const InferenceCall& call,
                                                   size_t index,
                                                   TextMemory& memory) const {
  const TensorFormat& format = parts_.inputs[index];
  std::vector<int64_t> shape = index < call.inputs.shapes.size()
                                   ? call.inputs.shapes[index]
                                   : format.Shape(call.inputs.rows);
  absl::StatusOr<TextTensor> tensor = ReadTextElements(
      format.data_type, std::move(shape), call.inputs.bytes[index], memory);
  RETURN_IF_ERROR(engine::AtPlace(absl::StrCat("input '", format.name, "'"),
                                  tensor.status()));
  return tensor;
}

// Fixed sizes must be those that the model declares, since clients count on
// them.
absl::Status TextExecutor::WriteOutput(const TextTensor& tensor, size_t index,
                                       uint32_t rows, Answer& answer) const {
  const TensorFormat& format = parts_.outputs[index];
  std::vector<int64_t> declared = format.DeclaredShape();
  if (format.batched) declared[0] = rows;
  const bool fits =
      tensor.type == format.data_type &&
      std::equal(declared.begin(), declared.end(), tensor.shape.begin(),
                 tensor.shape.end(), [](int64_t wanted, int64_t given) {
                   return wanted == -1 || wanted == given;
                 });
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "output '", format.name, "' of model ", parts_.label, " has the shape ",
        ShapeText(tensor.shape), " for this request, and the model declares ",
        ShapeText(format)));
  }
  answer.shapes.emplace_back(tensor.shape.begin() + (format.batched ? 1 : 0),
                             tensor.shape.end());
  return absl::OkStatus();
}

TextExecutor::Answer TextExecutor::Compute(const InferenceCall& call) const {
  Answer answer;
  TextMemory memory;
  const auto compute = [&]() -> absl::Status {
    std::vector<TextTensor> inputs;
    for (size_t i = 0; i < parts_.inputs.size(); ++i) {
      ASSIGN_OR_RETURN(inputs.emplace_back(), ReadInput(call, i, memory));
    }
    answer.read = absl::Now();
    ASSIGN_OR_RETURN(const std::vector<TextTensor> outputs,
                     parts_.runner->Run(std::move(inputs), memory));
    answer.computed = absl::Now();
    for (size_t i = 0; i < outputs.size(); ++i) {
      RETURN_IF_ERROR(WriteOutput(outputs[i], i, call.inputs.rows, answer));
      ASSIGN_OR_RETURN(answer.outputs.emplace_back(),
                       WriteTextElements(outputs[i], memory));
    }
    return absl::OkStatus();
  };
  answer.read = answer.computed = absl::Now();
  answer.status = compute();
  answer.written = absl::Now();
  if (!answer.status.ok()) answer.computed = answer.written;
  return answer;
}

void TextExecutor::Finish(const Waiting& waiting, absl::Time taken,
                          Answer answer) {
  InferenceCall& call = *waiting.call;
  const absl::StatusCode code = answer.status.code();
  const uint32_t rows = call.inputs.rows;
  const RequestSample sample{.code = code,
                             .rows = rows,
                             .total = answer.written - waiting.arrival,
                             .queue = taken - waiting.arrival,
                             .copy_in = answer.read - taken,
                             .compute = answer.computed - answer.read,
                             .copy_out = answer.written - answer.computed};
  const BatchSample batch{.code = code,
                          .requests = 1,
                          .rows = rows,
                          .copy_in = sample.copy_in,
                          .compute = sample.compute,
                          .copy_out = sample.copy_out};
  // Record first: a client with the answer may ask for the statistics at once.
  statistics_.BatchDone(batch);
  if (parts_.observer != nullptr) parts_.observer->BatchDone(batch);
  Record(sample);
  if (call.stages != nullptr) {
    *call.stages = {.arrival = waiting.arrival,
                    .taken = taken,
                    .submitted = answer.read,
                    .answered = answer.computed,
                    .wait = absl::ZeroDuration(),
                    .compute = sample.compute,
                    .batch_requests = 1,
                    .batch_rows = rows,
                    .tries = 1};
  }
  std::vector<absl::Span<const std::byte>> outputs;
  if (answer.status.ok()) {
    for (const std::string& raw : answer.outputs) {
      outputs.emplace_back(reinterpret_cast<const std::byte*>(raw.data()),
                           raw.size());
    }
    call.output_shapes = std::move(answer.shapes);
  }
  call.OnAnswer(answer.status, outputs);
}

void TextExecutor::Refuse(const Waiting& waiting, const absl::Status& status) {
  Record({.code = status.code(),
          .rows = waiting.call->inputs.rows,
          .total = absl::Now() - waiting.arrival});
  if (waiting.call->stages != nullptr) {
    waiting.call->stages->arrival = waiting.arrival;
  }
  waiting.call->OnAnswer(status, {});
}

void TextExecutor::Cancel(InferenceCall* call) {
  Waiting cancelled;
  {
    absl::MutexLock lock(&mutex_);
    const auto found =
        std::find_if(queue_.begin(), queue_.end(),
                     [&](const Waiting& w) { return w.call == call; });
    if (found == queue_.end()) return;
    cancelled = *found;
    queue_.erase(found);
    ReportLength();
  }
  Refuse(cancelled, absl::CancelledError("the client cancelled the request"));
}

void TextExecutor::Close(const absl::Status& status) {
  std::deque<Waiting> refused;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = status;
    refused.swap(queue_);
    ReportLength();
  }
  for (const Waiting& waiting : refused) Refuse(waiting, status);
}

void TextExecutor::CountRefused(absl::StatusCode code) {
  Record({.code = code});
}

void TextExecutor::RecordCache(const CacheSample& sample) {
  statistics_.CacheDone(sample);
  if (parts_.observer != nullptr) parts_.observer->CacheDone(sample);
}

void TextExecutor::Record(const RequestSample& sample) {
  statistics_.RequestDone(sample, absl::Now());
  if (parts_.observer != nullptr) parts_.observer->RequestDone(sample);
}

void TextExecutor::ReportLength() {
  if (parts_.observer != nullptr) {
    parts_.observer->QueueLength(queue_.size());
  }
}

}  // namespace gpupool::server
