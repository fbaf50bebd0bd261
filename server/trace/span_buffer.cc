#include "server/trace/span_buffer.h"

#include <utility>

#include "absl/time/clock.h"

namespace gpupool::server {

size_t SpanBuffer::Add(std::vector<Span> spans) {
  absl::MutexLock lock(&mutex_);
  const size_t before = spans_.size();
  for (Span& span : spans) {
    if (closed_ || spans_.size() >= limit_) break;
    spans_.push_back(std::move(span));
  }
  const size_t after = spans_.size();
  const size_t dropped = spans.size() - (after - before);
  if (before == after) return dropped;
  waiting_(after);
  if (before == 0 || (before < send_at_ && after >= send_at_)) {
    changed_.Signal();
  }
  return dropped;
}

std::vector<Span> SpanBuffer::Take(std::vector<Span> used) {
  used.clear();
  absl::MutexLock lock(&mutex_);
  while (spans_.empty() && !closed_) changed_.Wait(&mutex_);
  const absl::Time due = absl::Now() + patience_;
  while (spans_.size() < send_at_ && !closed_) {
    if (changed_.WaitWithDeadline(&mutex_, due)) break;
  }
  if (!spans_.empty()) waiting_(0);
  return std::exchange(spans_, std::move(used));
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
