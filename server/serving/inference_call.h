// One request on its way through serving. The front end derives from it,
// fills in the public fields and gives it to a Batcher, which answers it.
//
// Ownership: the caller's; it must live until OnAnswer was called, and the
// memory behind `inputs` as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/serving/tensor_view.h"

namespace gpupool::server {

class InferenceCall {
 public:
  virtual ~InferenceCall() = default;

  // Called exactly once, on any thread, perhaps before Enqueue returns. Must
  // not block. When `status` is OK, outputs[i] are the request's rows of the
  // model's output i; they lie in the slot and are gone when OnAnswer returns.
  // The call may destroy itself in it.
  virtual void OnAnswer(
      const absl::Status& status,
      absl::Span<const absl::Span<const std::byte>> outputs) = 0;

  CheckedInputs inputs;
  // Of one row of each output, as served; filled in before an OK OnAnswer.
  std::vector<std::vector<int64_t>> output_shapes;
  // The client stops waiting: answered DeadlineExceeded if still queued.
  absl::Time deadline = absl::InfiniteFuture();
  // The client would rather be refused: answered Unavailable if still queued.
  absl::Time queue_deadline = absl::InfiniteFuture();

 private:
  friend class Batcher;
  absl::Time arrival_;
  int launches_ = 0;
};

}  // namespace gpupool::server
