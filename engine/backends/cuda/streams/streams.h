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
  // Whether there is work that has neither ended nor failed; does not wait.
  bool IsBusy() const;

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

// Of one device. What is ordered against what:
//   compute        all work of training, in the order in which it was queued:
//                  its copies, steps, evaluations
//   copy           the next batch of a training, from pinned memory to its
//                  landing (engine/train/batch_landing.h) while compute is at
//                  the batch before it. Compute waits for the copy before it
//                  takes the batch from there, and the next copy waits until it
//                  has, both by events
//   communication  sums over ranks: each begins behind what compute had when it
//                  was queued, and compute waits for it where the sum is used,
//                  both by events (nccl_all_reduce.h)
//   inference      all work of serving, in order: the weights of models, their
//                  packing, inputs, runs, outputs. Blocks of it that are ready
//                  go before those of compute
// Between compute and inference there is no event, since they share nothing
// that either writes: models have their own weights, arena and scratch, and a
// version's weights come from a checkpoint's file. Memory that one has given
// back and the other gets is in nobody's use by then: whoever owns a program
// waits for its last run before letting go of it.
struct Streams {
  static absl::StatusOr<Streams> Create();

  Stream compute;
  Stream copy;
  Stream communication;
  Stream inference;
};

}  // namespace gpupool::engine::cuda
