#include "engine/backends/cuda/streams/cuda_timeline.h"

#include <atomic>
#include <cstring>

#include "engine/backends/cuda/driver/cuda_status.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

absl::StatusOr<std::unique_ptr<CudaTimeline>> CudaTimeline::Create(
    const DriverFunctions& driver, const Streams& streams) {
  std::unique_ptr<CudaTimeline> timeline(new CudaTimeline(driver, streams));
  void* page = nullptr;
  RETURN_IF_ERROR(
      StatusOf(cudaHostAlloc(&page, kStreams * sizeof(uint64_t),
                             cudaHostAllocMapped | cudaHostAllocPortable),
               "pinning the page of stream counters"));
  timeline->page_ = static_cast<uint64_t*>(page);
  std::memset(page, 0, kStreams * sizeof(uint64_t));
  void* address = nullptr;
  RETURN_IF_ERROR(StatusOf(cudaHostGetDevicePointer(&address, page, 0),
                           "mapping the page of stream counters"));
  timeline->address_ = reinterpret_cast<CUdeviceptr>(address);
  return timeline;
}

CudaTimeline::~CudaTimeline() {
  if (page_ != nullptr) cudaFreeHost(page_);
}

absl::StatusOr<Moment> CudaTimeline::Advance(StreamId stream) {
  GPUPOOL_CHECK(stream < kStreams);
  const uint64_t next = queued_[stream] + 1;
  RETURN_IF_ERROR(
      StatusOf(driver_.write_value(handles_[stream],
                                   // By default a memory barrier precedes the
                                   // write: whatever the stream wrote before is
                                   // visible first.
                                   address_ + stream * sizeof(uint64_t), next,
                                   CU_STREAM_WRITE_VALUE_DEFAULT),
               "queueing a stream counter"));
  queued_[stream] = next;
  return Moment{stream, next};
}

uint64_t CudaTimeline::Completed(StreamId stream) const {
  GPUPOOL_CHECK(stream < kStreams);
  // acquire: whoever sees the counter also sees everything written before it.
  return std::atomic_ref<uint64_t>(page_[stream])
      .load(std::memory_order_acquire);
}

absl::Status CudaTimeline::Wait(const Moment& moment) {
  if (Completed(moment.stream) >= moment.counter) return absl::OkStatus();
  return StatusOf(cudaStreamSynchronize(handles_[moment.stream]),
                  "waiting for a stream");
}

}  // namespace gpupool::engine::cuda
