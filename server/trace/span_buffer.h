// Finished spans on their way to the thread that sends them. Never blocks those
// who add: when it is full, spans are dropped and counted.
//
// Thread-safety: any thread adds, one takes.
// Invariant: at most `limit` spans wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/trace/span.h"

namespace gpupool::server {

class SpanBuffer {
 public:
  // Lets spans wait until `send_at` of them do, or for `patience`.
  SpanBuffer(size_t limit, size_t send_at, absl::Duration patience)
      : limit_(limit), send_at_(send_at), patience_(patience) {}

  // Adds the spans, or drops those for which there is no room.
  void Add(std::vector<Span> spans);

  struct Taken {
    std::vector<Span> spans;
    uint64_t dropped = 0;  // spans that were dropped since the last Take
  };
  // Blocks until spans are due. Returns none once Close was called and all were
  // taken.
  Taken Take();

  // Lets Take return at once from now on, and drops what is added later.
  void Close();

  size_t size() const;

 private:
  const size_t limit_;
  const size_t send_at_;
  const absl::Duration patience_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;  // spans are there, are due, or it was closed
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gpupool::server
