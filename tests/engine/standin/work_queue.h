// Work of one stream of a device, which happens when somebody waits for it, in
// order. What the host changes too early, or reads before it is there, gives
// wrong numbers: always, and not only when a real device happens to be slow.
// Two queues wait for each other in nothing but what Await says. The work of an
// eager one happens as soon as it may: what should have waited for another
// queue then comes too early, as it comes too late where it is not waited for.
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
  // What is added from now on waits for what `other` has now. A queue is
  // followed by one other at most.
  void Await(WorkQueue& other) {
    GPUPOOL_CHECK(!capturing() && !other.capturing());
    GPUPOOL_CHECK(other.follower_ == nullptr || other.follower_ == this);
    other.follower_ = this;
    AddPiece({.awaited = &other, .until = other.done_ + other.work_.size()});
  }
  size_t size() const { return work_.size(); }

  // What is added until EndCapture is not done but returned there.
  void BeginCapture() {
    GPUPOOL_CHECK(!captured_.has_value());
    captured_.emplace();
  }
  std::vector<Work> EndCapture() {
    return *std::exchange(captured_, std::nullopt);
  }
  bool capturing() const { return captured_.has_value(); }

  // Does everything, also after an error, as a GPU does.
  void Drain() {
    while (!DoOne()) {
    }
  }
  // Does the oldest piece of work; whether none is left.
  bool DoOne() {
    // A device that is asked to wait for a capture refuses.
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
  // The first error since the last call.
  absl::Status TakeError() { return std::exchange(error_, absl::OkStatus()); }

 private:
  // Work, or a wait for a number of pieces of another queue.
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
  WorkQueue* follower_ = nullptr;  // awaits this one
  bool busy_ = false;
  std::optional<std::vector<Work>> captured_;
  absl::Status error_;
};

}  // namespace gpupool::engine::standin
