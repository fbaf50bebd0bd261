// Work of one stream of a device, which happens when somebody waits for it, in
// order. What the host changes too early, or reads before it is there, gives
// wrong numbers: always, and not only when a real device happens to be slow.
// Two queues wait for each other in nothing.
//
// Thread-safety: one thread.
#pragma once

#include <cstddef>
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

  void Add(Work work) {
    if (captured_.has_value()) {
      captured_->push_back(std::move(work));
    } else {
      work_.push_back(std::move(work));
    }
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
    absl::Status status = work_.front()();
    work_.pop_front();
    if (error_.ok()) error_ = std::move(status);
    return work_.empty();
  }
  // The first error since the last call.
  absl::Status TakeError() { return std::exchange(error_, absl::OkStatus()); }

 private:
  std::deque<Work> work_;
  std::optional<std::vector<Work>> captured_;
  absl::Status error_;
};

}  // namespace gpupool::engine::standin
