// Work of a device that happens when somebody waits for it, in order. What the
// host changes too early, or reads before it is there, gives wrong numbers:
// always, and not only when a real device happens to be slow.
//
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace gpupool::engine::standin {

class WorkQueue {
 public:
  using Work = std::function<absl::Status()>;

  void Add(Work work) { work_.push_back(std::move(work)); }
  size_t size() const { return work_.size(); }
  // What was added since there were so many.
  std::vector<Work> Since(size_t size) const {
    return {work_.begin() + static_cast<ptrdiff_t>(size), work_.end()};
  }

  // Does everything, also after an error, as a GPU does.
  void Drain() {
    for (const Work& work : work_) {
      absl::Status status = work();
      if (error_.ok()) error_ = std::move(status);
    }
    work_.clear();
  }
  // The first error since the last call.
  absl::Status TakeError() { return std::exchange(error_, absl::OkStatus()); }

 private:
  std::vector<Work> work_;
  absl::Status error_;
};

}  // namespace gpupool::engine::standin
