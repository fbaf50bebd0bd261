// A request on its way through serving. The front end derives from it, fills in
// the public fields and gives it to a CallExecutor, which answers it.
//
// Ownership: the caller's. The call, and the memory behind `inputs`, `stages`
// and `steps`, must live until OnAnswer was called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/serving/sequence_id.h"
#include "server/serving/tensor/tensor_view.h"

namespace gpupool::server {

// Points in time of a call on its way, for traces. Times that it did not reach
// are InfinitePast.
struct StageTimes {
  absl::Time arrival = absl::InfinitePast();    // queued
  absl::Time taken = absl::InfinitePast();      // its batch has a slot
  absl::Time submitted = absl::InfinitePast();  // all rows are in the slot
  absl::Time answered = absl::InfinitePast();   // the worker's answer is there
  absl::Duration wait;     // inside the worker, for the device
  absl::Duration compute;  // in the engine
  uint32_t batch_requests = 0;
  uint32_t batch_rows = 0;
  int tries = 0;  // batches that had the call
};

// A step of an ensemble that was started, for traces.
struct StepTimes {
  std::string model;
  uint64_t version = 0;
  std::string device;
  StageTimes stages;
  absl::Time begin = absl::InfinitePast();
  absl::Time end = absl::InfinitePast();
  absl::StatusCode code = absl::StatusCode::kOk;
};

class InferenceCall {
 public:
  virtual ~InferenceCall() = default;

  // Receives the answer: called exactly once, on any thread, possibly before
  // Enqueue returns. Must not block. When `status` is OK, outputs[i] are the
  // request's rows of the model's output i, in HeldType of its type. They lie
  // in the slot and are gone when OnAnswer returns. The call may destroy itself
  // in it.
  virtual void OnAnswer(
      const absl::Status& status,
      absl::Span<const absl::Span<const std::byte>> outputs) = 0;

  // Receives a response of a decoupled version, as OnAnswer receives an answer:
  // in order, before OnAnswer, and not before CallExecutor::Resume was called
  // for the response before it. `has_output` says which outputs it has. The
  // answer of a decoupled version has no outputs.
  // By default does nothing.
  virtual void OnResponse(
      absl::Span<const absl::Span<const std::byte>> /*outputs*/) {}

  CheckedInputs inputs;
  // Shape of one row of each output, as served. Set before an OK OnAnswer.
  std::vector<std::vector<int64_t>> output_shapes;
  // Whether the response of a decoupled version has each output. Set before
  // OnResponse.
  std::vector<bool> has_output;
  // End of the client's wait. A call that is still queued is answered
  // DeadlineExceeded.
  absl::Time deadline = absl::InfiniteFuture();
  // Time after which the client prefers a refusal. A call that is still queued
  // is answered Unavailable.
  absl::Time queue_deadline = absl::InfiniteFuture();
  // The request's place in a sequence, if the version serves sequences.
  SequencePlace sequence;
  // Time since which the call waits, if that was before Enqueue.
  absl::Time waits_since = absl::InfiniteFuture();
  // Filled in before OnAnswer; null: nobody wants to know.
  StageTimes* stages = nullptr;
  // The steps of an ensemble, filled in before OnAnswer; null: nobody wants to
  // know.
  std::vector<StepTimes>* steps = nullptr;

 private:
  friend class Batcher;
  absl::Time arrival_;
  int launches_ = 0;
  bool alone_ = false;  // shares no batch, since one with it was refused
};

}  // namespace gpupool::server
