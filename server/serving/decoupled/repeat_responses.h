// The back end "repeat", which is Triton's: a model that repeats the elements
// of its input, one response for each, to try clients of decoupled models.
//
//   input   IN     INT32 [n]    elements, at most kMostRepeats
//   input   DELAY  UINT32 [n]   milliseconds before each response
//   input   WAIT   UINT32 [1]   milliseconds before the next request begins
//   output  OUT    INT32 [1]    the element
//   output  IDX    UINT32 [1]   its position
//
// Thread-safety: RepeatClock any thread; the rest pure functions.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/decoupled/response_source.h"
#include "server/serving/tensor/tensor_view.h"

namespace gpupool::server {

inline constexpr int64_t kMostRepeats = 10'000;
// Limit of each DELAY, and of WAIT.
inline constexpr uint32_t kLongestRepeatMillis = 60'000;

// Returns the inputs and outputs, as a worker plans those of a file, and the
// sizes of the dimension "n" in `spec`.
void DescribeRepeat(v1::Plan* plan, v1::ModelSpec* spec);

// When the requests of a model begin: one after the other.
class RepeatClock {
 public:
  // Returns when a request that is there at `now` begins. The next one begins
  // `wait` after it, or later. ResourceExhausted: it would have to wait for
  // longer than kLongestRepeatMillis.
  absl::StatusOr<absl::Time> Begin(absl::Time now, absl::Duration wait);

 private:
  absl::Mutex mutex_;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// Returns the responses to a request that is there at `now`, whose inputs have
// passed CheckInputs. InvalidArgument: a DELAY or WAIT above
// kLongestRepeatMillis. ResourceExhausted: see RepeatClock.
absl::StatusOr<std::unique_ptr<ResponseSource>> MakeRepeatResponses(
    const CheckedInputs& inputs, absl::Time now, RepeatClock* clock);

}  // namespace gpupool::server
