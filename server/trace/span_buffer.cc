#include "server/trace/span_buffer.h"

#include <utility>

#include "absl/time/clock.h"

namespace gpupool::server {

void SpanBuffer::Add(std::vector<Span> spans) {
  absl::MutexLock lock(&mutex_);
  const size_t before = spans_.size();
  for (Span& span : spans) {
    if (closed_ || spans_.size() >= limit_) {
      ++dropped_;
    } else {
      spans_.push_back(std::move(span));
    }
  }
  const size_t after = spans_.size();
  if (before == after) return;
  if (before == 0 || (before < send_at_ && after >= send_at_)) {
    changed_.Signal();
  }
}

SpanBuffer::Taken SpanBuffer::Take() {
  absl::MutexLock lock(&mutex_);
  while (spans_.empty() && !closed_) changed_.Wait(&mutex_);
  const absl::Time due = absl::Now() + patience_;
  while (spans_.size() < send_at_ && !closed_) {
    if (changed_.WaitWithDeadline(&mutex_, due)) break;
  }
  return {std::exchange(spans_, {}), std::exchange(dropped_, 0)};
}

void SpanBuffer::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  changed_.SignalAll();
}

size_t SpanBuffer::size() const {
  absl::MutexLock lock(&mutex_);
  return spans_.size();
}

}  // namespace gpupool::server
