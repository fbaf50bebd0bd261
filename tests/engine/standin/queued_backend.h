// A back end that runs another one's kernels on protected memory, and late: see
// protected_pages.h and work_queue.h. A capture holds the work that its run
// queued, with its addresses, as a CUDA graph does.
//
// Copies distinguish three kinds of host memory:
//   staging, registered  may be copied as part of a run
//   pageable             all other memory. Copies that the caller waits for are
//                        allowed (weights). A run with one fails, because a GPU
//                        would be slow at it
//
// The process ends when registered memory or staging is freed while a copy of
// it is queued. It also ends when a copy of registered memory is captured,
// because the addresses of slots belong to one request.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "engine/runtime/device_backend.h"
#include "engine/runtime/host_ranges.h"
#include "engine/runtime/recording_cache.h"
#include "tests/engine/standin/protected_pages.h"
#include "tests/engine/standin/work_queue.h"

namespace gpupool::engine::standin {

// The host's memory as one device knows it, and the copies from and to it.
// Outlives the transfers and their registrations.
struct HostSide {
  HostRanges registered;
  HostRanges staging;
  absl::Status refusal;  // of every registration; OK: none is refused
  int registrations = 0;
  int unregistrations = 0;
  // Counts by kind of memory, without copies that were started from captures.
  int registered_copies = 0;
  int staged_copies = 0;
  int pageable_copies = 0;
  // Counts all kinds, only copies beside a back end's work.
  int copies_beside = 0;
};

// Device memory that a capture takes for each piece of its work.
inline constexpr uint64_t kCapturedPieceBytes = 1024;

class QueuedTransfer : public Transfer {
 public:
  // `beside` is a transfer that works beside this one from now on; may be null.
  QueuedTransfer(const ProtectedPages* pages, WorkQueue* queue, HostSide* host,
                 QueuedTransfer* beside = nullptr)
      : pages_(pages), queue_(queue), host_(host), beside_(beside) {
    if (beside_ != nullptr) beside_->is_beside_ = true;
  }

  bool host_visible() const override { return false; }
  absl::Status CopyToDevice(std::byte* to,
                            absl::Span<const std::byte> from) override;
  absl::Status CopyFromDevice(absl::Span<std::byte> to,
                              const std::byte* from) override;
  absl::Status CopyOnDevice(std::byte* to, const std::byte* from,
                            uint64_t bytes) override;
  absl::Status Clear(std::byte* to, uint64_t bytes) override;
  absl::Status Synchronize() override;
  Transfer* beside() override { return beside_; }
  absl::Status Await(Transfer& other) override;
  absl::StatusOr<std::unique_ptr<StagingBuffer>> AllocateStaging(
      uint64_t bytes) override;
  absl::StatusOr<std::unique_ptr<HostRegistration>> Register(
      absl::Span<std::byte> host) override;
  bool IsRegistered(absl::Span<const std::byte> host) const override {
    return host_->registered.Hold(host);
  }

  // INTERNAL if pageable memory was copied since Synchronize.
  absl::Status TakePageableCopy();

 private:
  // Adds a copy from or to `host`.
  void AddCopy(absl::Span<const std::byte> host, WorkQueue::Work copy);

  const ProtectedPages* const pages_;
  WorkQueue* const queue_;
  HostSide* const host_;
  QueuedTransfer* const beside_;
  bool is_beside_ = false;
  bool pageable_ = false;  // whether there was such a copy since Synchronize
};

class WorkCapturer : public Capturer {
 public:
  explicit WorkCapturer(WorkQueue* queue) : queue_(queue) {}
  absl::StatusOr<std::unique_ptr<CapturedRun>> Capture(
      const std::function<absl::Status()>& queue) override;

 private:
  WorkQueue* const queue_;
};

class QueuedBackend : public DeviceBackend {
 public:
  // `pages` and `host` must outlive the back end. `copies` says whether there
  // are copies beside its work, and how soon they happen. The stand-in sets
  // `recordings.captures` itself.
  QueuedBackend(std::unique_ptr<DeviceBackend> kernels,
                const ProtectedPages* pages, HostSide* host,
                std::optional<WorkQueue::Pace> copies = std::nullopt,
                RecordingCacheOptions recordings = {})
      : kernels_(std::move(kernels)),
        pages_(pages),
        copies_(copies.value_or(WorkQueue::Pace::kLate)),
        beside_(pages, &copies_, host),
        transfer_(pages, &queue_, host,
                  copies.has_value() ? &beside_ : nullptr),
        recordings_(&capturer_, WithFewCaptures(std::move(recordings))) {}

  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override;
  Transfer& transfer() override { return transfer_; }
  void BeginRun() override { kernels_->BeginRun(); }
  // Each call takes as long as one piece of work.
  bool RunIsDone() override { return queue_.DoOne(); }
  absl::Status FinishRun(const Graph& graph) override;
  std::unique_ptr<Recording> Record(
      std::function<absl::Status()> queue) override {
    return recordings_.Record(std::move(queue));
  }

  const RecordingCache& recordings() const { return recordings_; }

 private:
  // A small number, so that sessions see captures being evicted.
  static constexpr size_t kCaptures = 4;

  static RecordingCacheOptions WithFewCaptures(RecordingCacheOptions options) {
    options.captures = kCaptures;
    return options;
  }

  const std::unique_ptr<DeviceBackend> kernels_;
  const ProtectedPages* const pages_;
  WorkQueue queue_;
  WorkQueue copies_;  // beside it
  QueuedTransfer beside_;
  QueuedTransfer transfer_;
  WorkCapturer capturer_{&queue_};
  RecordingCache recordings_;
};

}  // namespace gpupool::engine::standin
