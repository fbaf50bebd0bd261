// The streams of a device and events between them, as objects that give
// themselves back.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpupool::engine::cuda {

class Stream {
 public:
  enum class Priority { kNormal, kHigh };

  // Does not wait for the legacy default stream.
  static absl::StatusOr<Stream> Create(Priority priority);
  Stream() = default;
  Stream(Stream&& other) noexcept : handle_(other.handle_) {
    other.handle_ = nullptr;
  }
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  cudaStream_t handle() const { return handle_; }

 private:
  explicit Stream(cudaStream_t handle) : handle_(handle) {}

  cudaStream_t handle_ = nullptr;
};

class Event {
 public:
  static absl::StatusOr<Event> Create();
  Event() = default;
  Event(Event&& other) noexcept : handle_(other.handle_) {
    other.handle_ = nullptr;
  }
  Event& operator=(Event&& other) noexcept;
  ~Event();

  // Marks the present end of `stream`.
  absl::Status Record(const Stream& stream);
  // What is queued on `stream` from now on waits for the mark, on the device.
  absl::Status Await(const Stream& stream) const;

 private:
  explicit Event(cudaEvent_t handle) : handle_(handle) {}

  cudaEvent_t handle_ = nullptr;
};

// Of one device. Work of training and serving is queued on `compute` (serving
// beside training: `inference`, which the device prefers), copies that run
// beside it on `copy`, collectives on `communication`.
struct Streams {
  static absl::StatusOr<Streams> Create();

  Stream compute;
  Stream copy;
  Stream communication;
  Stream inference;
};

}  // namespace gpupool::engine::cuda
