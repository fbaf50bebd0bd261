// The work of one stream of a device. It happens in order, when somebody waits
// for it. If the host changes memory too early, or reads a result before it is
// there, the numbers are always wrong, and not only when a real device happens
// to be slow.
//
// Two queues wait for each other only through Await. The work of an eager queue
// happens as soon as it may, so a missing wait for another queue makes it too
// early. In other queues a missing wait makes work too late.
//
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/check.h"

namespace gpupool::engine::standin {

class WorkQueue {
 public:
  using Work = std::function<absl::Status()>;

  enum class Pace { kLate, kEager };

  explicit WorkQueue(Pace pace = Pace::kLate) : pace_(pace) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Add(Work work) {
    if (captured_.has_value()) {
      captured_->push_back(std::move(work));
    } else {
      AddPiece({.work = std::move(work)});
    }
  }
  // Makes work that is added from now on wait for the work that `other` has
  // now. At most one other queue may follow a queue.
  void Await(WorkQueue& other) {
    GPUPOOL_CHECK(!capturing() && !other.capturing());
    GPUPOOL_CHECK(other.follower_ == nullptr || other.follower_ == this);
    other.follower_ = this;
    AddPiece({.awaited = &other, .until = other.done_ + other.work_.size()});
  }
  size_t size() const { return work_.size(); }

  // Work that is added until EndCapture is not done but returned by EndCapture.
  void BeginCapture() {
    GPUPOOL_CHECK(!captured_.has_value());
    captured_.emplace();
  }
  std::vector<Work> EndCapture() {
    return *std::exchange(captured_, std::nullopt);
  }
  bool capturing() const { return captured_.has_value(); }

  // Does all work, also after an error, as a GPU does.
  void Drain() {
    while (!DoOne()) {
    }
  }
  // Does the oldest piece of work. Returns whether none is left.
  bool DoOne() {
    // A device cannot wait for a capture.
    GPUPOOL_CHECK(!capturing());
    if (work_.empty()) return true;
    // Two queues that wait for each other would never end.
    GPUPOOL_CHECK(!std::exchange(busy_, true));
    const Piece& piece = work_.front();
    absl::Status status;
    if (piece.awaited == nullptr) {
      status = piece.work();
    } else {
      while (!piece.IsDue()) piece.awaited->DoOne();
    }
    work_.pop_front();
    ++done_;
    busy_ = false;
    if (error_.ok()) error_ = std::move(status);
    if (follower_ != nullptr) follower_->DoWhatItMay();
    return work_.empty();
  }
  // Returns the first error since the last call.
  absl::Status TakeError() { return std::exchange(error_, absl::OkStatus()); }

 private:
  // A piece of work, or a wait for a number of pieces of another queue.
  struct Piece {
    Work work;
    WorkQueue* awaited = nullptr;
    uint64_t until = 0;

    bool IsDue() const { return awaited == nullptr || awaited->done_ >= until; }
  };

  void AddPiece(Piece piece) {
    work_.push_back(std::move(piece));
    DoWhatItMay();
  }
  void DoWhatItMay() {
    if (pace_ != Pace::kEager || busy_) return;
    while (!work_.empty() && work_.front().IsDue()) DoOne();
  }

  const Pace pace_;
  std::deque<Piece> work_;
  uint64_t done_ = 0;              // pieces since the beginning
  WorkQueue* follower_ = nullptr;  // the queue that awaits this one
  bool busy_ = false;
  std::optional<std::vector<Work>> captured_;
  absl::Status error_;
};

}  // namespace gpupool::engine::standin
