// When a job reports its progress, and when it saves checkpoints that it was
// not asked for. Callers give the time.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <optional>

namespace gpupool::server {

// Limits reports of progress, since the daemon stores each one: at most
// kBurst at once, and kPerSecond on average.
class ReportPace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr double kBurst = 1000;
  static constexpr double kPerSecond = 100;

  // Counts a report at `now` and returns true, or returns false when there were
  // too many before it.
  bool Take(Clock::time_point now);

 private:
  double left_ = kBurst;
  std::optional<Clock::time_point> last_;
};

// Spreads checkpoints by time, so that they cost at most one hundredth of it.
class CheckpointPace {
 public:
  using Clock = std::chrono::steady_clock;

  // Checkpoints are never due with an interval of zero.
  explicit CheckpointPace(Clock::duration interval) : interval_(interval) {}

  // Starts to count at `now`.
  void Start(Clock::time_point now) { since_ = now; }
  // Notes that a checkpoint was begun at `now`, and for how long the training
  // paused. The longest pause counts.
  void NoteSaved(Clock::time_point now, Clock::duration pause);
  // Notes the longest time in which a checkpoint was written in the background.
  // It counts as a pause, since the write takes a thread of the host.
  void NoteWrite(Clock::duration write) { write_ = write; }

  // Returns whether the interval, and a hundred times the cost of a checkpoint,
  // have passed since the last one.
  bool IsDue(Clock::time_point now) const;

 private:
  const Clock::duration interval_;
  Clock::time_point since_;
  Clock::duration pause_{0};
  Clock::duration write_{0};
};

}  // namespace gpupool::server
