#include "engine/backends/cuda/streams/streams.h"

#include <utility>

#include "engine/backends/cuda/driver/cuda_status.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

absl::StatusOr<Stream> Stream::Create(Priority priority) {
  int least = 0, greatest = 0;
  // Smaller numbers mean a higher priority.
  RETURN_IF_ERROR(StatusOf(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                           "asking for stream priorities"));
  cudaStream_t handle = nullptr;
  RETURN_IF_ERROR(StatusOf(cudaStreamCreateWithPriority(
                               &handle, cudaStreamNonBlocking,
                               priority == Priority::kHigh ? greatest : least),
                           "making a stream"));
  return Stream(handle);
}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Stream::~Stream() {
  if (handle_ != nullptr) cudaStreamDestroy(handle_);
}

bool Stream::IsBusy() const {
  if (cudaStreamQuery(handle_) != cudaErrorNotReady) return false;
  // cudaErrorNotReady is no error, but it becomes the thread's last one, and
  // the next launch would be blamed for it.
  cudaGetLastError();
  return true;
}

absl::StatusOr<Event> Event::Create() {
  cudaEvent_t handle = nullptr;
  RETURN_IF_ERROR(
      StatusOf(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming),
               "making an event"));
  return Event(handle);
}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ != nullptr) cudaEventDestroy(handle_);
}

absl::Status Event::Record(const Stream& stream) {
  return StatusOf(cudaEventRecord(handle_, stream.handle()),
                  "recording an event");
}

absl::Status Event::Await(const Stream& stream) const {
  return StatusOf(cudaStreamWaitEvent(stream.handle(), handle_, 0),
                  "waiting for an event");
}

absl::StatusOr<Streams> Streams::Create() {
  Streams streams;
  ASSIGN_OR_RETURN(streams.compute, Stream::Create(Stream::Priority::kNormal));
  ASSIGN_OR_RETURN(streams.copy, Stream::Create(Stream::Priority::kNormal));
  ASSIGN_OR_RETURN(streams.communication,
                   Stream::Create(Stream::Priority::kHigh));
  ASSIGN_OR_RETURN(streams.inference, Stream::Create(Stream::Priority::kHigh));
  return streams;
}

}  // namespace gpupool::engine::cuda
