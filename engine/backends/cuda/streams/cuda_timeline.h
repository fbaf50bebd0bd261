// Progress of a device's streams. Each stream writes a counter to a pinned page
// when the work before the counter is done.
//
// Thread-safety: as TimelineSource. Only the thread that queues work calls
// Advance.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "engine/backends/cuda/driver/driver_functions.h"
#include "engine/backends/cuda/streams/streams.h"
#include "engine/memory/timeline.h"

namespace gpupool::engine::cuda {

class CudaTimeline : public TimelineSource {
 public:
  static constexpr StreamId kCompute = kDefaultStream;
  static constexpr StreamId kCopy = 1;
  static constexpr StreamId kCommunication = 2;
  static constexpr StreamId kInference = 3;
  static constexpr size_t kStreams = 4;

  // `streams` must outlive the timeline.
  static absl::StatusOr<std::unique_ptr<CudaTimeline>> Create(
      const DriverFunctions& driver, const Streams& streams);
  ~CudaTimeline() override;
  CudaTimeline(const CudaTimeline&) = delete;
  CudaTimeline& operator=(const CudaTimeline&) = delete;

  // Queues the next counter of the stream. Returns the moment at which all work
  // that was queued on the stream before is done.
  absl::StatusOr<Moment> Advance(StreamId stream);

  uint64_t Completed(StreamId stream) const override;
  absl::Status Wait(const Moment& moment) override;

 private:
  CudaTimeline(const DriverFunctions& driver, const Streams& streams)
      : driver_(driver),
        handles_{streams.compute.handle(), streams.copy.handle(),
                 streams.communication.handle(), streams.inference.handle()} {}

  const DriverFunctions driver_;
  const std::array<cudaStream_t, kStreams> handles_;
  std::array<uint64_t, kStreams> queued_ = {};
  uint64_t* page_ = nullptr;  // one counter for each stream
  CUdeviceptr address_ = 0;   // the page's address on the device
};

}  // namespace gpupool::engine::cuda
