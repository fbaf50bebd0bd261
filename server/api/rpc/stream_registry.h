// Private to server/api: the open streams of one kind. Bounds their number, and
// lets a stopping server end them all with a status that tells the client to
// come back.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::server {

class OpenStream {
 public:
  virtual ~OpenStream() = default;
  // Ends the stream with this status as soon as possible. May be called at any
  // time, also after the stream has ended.
  virtual void Stop(const absl::Status& status) = 0;
};

class StreamRegistry {
 public:
  explicit StreamRegistry(size_t limit) : limit_(limit) {}

  // Adds a stream. ResourceExhausted beyond the limit, Unavailable after
  // StopAll.
  absl::Status Add(const std::shared_ptr<OpenStream>& stream);
  void Remove(const OpenStream* stream);

  // Stops every stream and refuses later ones. Idempotent.
  void StopAll();

 private:
  const size_t limit_;
  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<const OpenStream*, std::weak_ptr<OpenStream>> streams_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
