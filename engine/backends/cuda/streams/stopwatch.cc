#include "engine/backends/cuda/streams/stopwatch.h"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/backends/cuda/driver/cuda_status.h"
#include "engine/backends/cuda/driver/fault_class.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

constexpr size_t kRuns = 5;

class TimedEvent {
 public:
  TimedEvent() { cudaEventCreate(&handle_); }
  ~TimedEvent() {
    if (handle_ != nullptr) cudaEventDestroy(handle_);
  }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  cudaEvent_t get() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

}  // namespace

absl::StatusOr<double> MeasureMillis(
    cudaStream_t stream, const std::function<absl::Status()>& queue) {
  // The first call loads code and warms caches, so it is not measured.
  RETURN_IF_ERROR(queue());
  std::array<float, kRuns> times{};
  const TimedEvent begin, end;
  for (float& time : times) {
    RETURN_IF_ERROR(
        StatusOf(cudaEventRecord(begin.get(), stream), "starting a stopwatch"));
    RETURN_IF_ERROR(queue());
    RETURN_IF_ERROR(
        StatusOf(cudaEventRecord(end.get(), stream), "stopping a stopwatch"));
    RETURN_IF_ERROR(
        StatusOf(cudaEventSynchronize(end.get()), "waiting for a stopwatch"));
    RETURN_IF_ERROR(
        StatusOf(cudaEventElapsedTime(&time, begin.get(), end.get()),
                 "reading a stopwatch"));
  }
  // The median ignores runs that other work on the machine delayed.
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

absl::StatusOr<size_t> FindFastest(
    cudaStream_t stream, size_t count,
    const std::function<absl::Status(size_t)>& queue) {
  size_t best = count;
  double least = std::numeric_limits<double>::infinity();
  absl::Status why = absl::InternalError("there is no candidate");
  for (size_t i = 0; i < count; ++i) {
    const auto millis = MeasureMillis(stream, [&] { return queue(i); });
    if (!millis.ok()) {
      why = millis.status();
      // After a sticky error the context is lost and no candidate can run.
      if (EndsProcess(FaultOf(why))) return why;
    } else if (*millis < least) {
      least = *millis;
      best = i;
    }
  }
  if (best == count) return why;
  return best;
}

}  // namespace gpupool::engine::cuda
