// Finished spans on their way to the thread that sends them. Never blocks those
// who add: when it is full, spans are dropped.
//
// Thread-safety: any thread adds, one takes.
// Invariant: at most `limit` spans wait.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/trace/span.h"

namespace gpupool::server {

class SpanBuffer {
 public:
  // Gets the number of spans that wait.
  using Waiting = std::function<void(size_t spans)>;

  // Lets spans wait until `send_at` of them do, or for `patience`. Calls
  // `waiting` after each change, under the buffer's lock. So it must be short
  // and must not call the buffer.
  SpanBuffer(
      size_t limit, size_t send_at, absl::Duration patience,
      Waiting waiting = [](size_t) {})
      : limit_(limit),
        send_at_(send_at),
        patience_(patience),
        waiting_(std::move(waiting)) {}

  // Adds the spans, or drops those for which there is no room. Returns how many
  // were dropped.
  size_t Add(std::vector<Span> spans);

  // Blocks until spans are due. Returns none once Close was called and all were
  // taken. The memory of `used`, spans that were taken before, is used again.
  std::vector<Span> Take(std::vector<Span> used = {});

  // Lets Take return at once from now on, and drops what is added later.
  void Close();

  size_t size() const;

 private:
  const size_t limit_;
  const size_t send_at_;
  const absl::Duration patience_;
  const Waiting waiting_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;  // spans are there, are due, or it was closed
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gpupool::server
