#include "server/worker/job_pace.h"

#include <algorithm>

namespace gpupool::server {
namespace {

// The share of its time that a job spends on checkpoints is at most one in
// this.
constexpr int kCostFactor = 100;

}  // namespace

bool ReportPace::Take(Clock::time_point now) {
  if (last_.has_value()) {
    const double seconds = std::chrono::duration<double>(now - *last_).count();
    left_ = std::min(kBurst, left_ + kPerSecond * std::max(seconds, 0.0));
  }
  last_ = now;
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

void CheckpointPace::NoteSaved(Clock::time_point now, Clock::duration pause) {
  since_ = now;
  pause_ = std::max(pause_, pause);
}

bool CheckpointPace::IsDue(Clock::time_point now) const {
  if (interval_ <= Clock::duration::zero()) return false;
  return now - since_ >= std::max(interval_, kCostFactor * (pause_ + write_));
}

}  // namespace gpupool::server
