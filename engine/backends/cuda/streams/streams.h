// Owning handles of a device's streams and of events between them.
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

  // Creates a stream that does not wait for the legacy default stream.
  static absl::StatusOr<Stream> Create(Priority priority);
  Stream() = default;
  Stream(Stream&& other) noexcept : handle_(other.handle_) {
    other.handle_ = nullptr;
  }
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  cudaStream_t handle() const { return handle_; }
  // Returns whether the stream has work that has neither ended nor failed. Does
  // not block.
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
  // Makes later work on `stream` wait for the mark, on the device.
  absl::Status Await(const Stream& stream) const;

 private:
  explicit Event(cudaEvent_t handle) : handle_(handle) {}

  cudaEvent_t handle_ = nullptr;
};

// The streams of one device:
//   compute        all work of training in order: copies, steps, evaluations
//   copy           copies the next batch of a training from pinned memory to
//                  its landing (engine/train/input/batch_landing.h) while
//                  compute works on the batch before
//   communication  sums over ranks (nccl_all_reduce.h)
//   inference      all work of serving in order: weights of models, their
//                  packing, inputs, runs, outputs. Its blocks have priority
//                  over those of compute
//
// Events order the streams as follows:
// - compute waits for a copy before it takes the batch from the landing, and
//   the next copy waits until compute has taken it.
// - A sum begins after the work that compute had when the sum was queued, and
//   compute waits for the sum where it is used.
// - No event orders compute and inference, since neither writes what the other
//   uses. Models have their own weights, arena and scratch, and a version's
//   weights come from a checkpoint's file. Memory that moves from one to the
//   other is not in use: the owner of a program waits for its last run before
//   it frees the program.
struct Streams {
  static absl::StatusOr<Streams> Create();

  Stream compute;
  Stream copy;
  Stream communication;
  Stream inference;
};

}  // namespace gpupool::engine::cuda
