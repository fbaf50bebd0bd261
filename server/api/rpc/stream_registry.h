// Private to server/api: the open streams of one kind. Bounds their number, in
// total and for each caller, ends those whose clients make no progress, and
// lets a stopping server end them all with a status that tells the client to
// come back.
//
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace gpupool::server {

// The time for which a stream of a file waits for its client's next step.
inline constexpr absl::Duration kStreamPatience = absl::Seconds(60);

class OpenStream {
 public:
  virtual ~OpenStream() = default;
  // Ends the stream with this status as soon as possible. May be called at any
  // time, also after the stream has ended.
  virtual void Stop(const absl::Status& status) = 0;
  // Does the same, but never waits for the client.
  virtual void EndIdle(const absl::Status& status) { Stop(status); }

  // Returns a number that is odd while the stream waits for its client. Each
  // step of either makes it another one.
  uint64_t turn() const { return turn_; }

 protected:
  void BeginWaitForClient() { ++turn_; }
  void EndWaitForClient() { ++turn_; }

 private:
  std::atomic<uint64_t> turn_ = 0;
};

class StreamRegistry {
 public:
  using Clock = std::function<absl::Time()>;

  // A stream whose client takes no step for `patience`, or up to an eighth
  // longer, is ended. An infinite one ends none. `now` must never go back; by
  // default it is a steady clock.
  explicit StreamRegistry(size_t limit,
                          absl::Duration patience = absl::InfiniteDuration(),
                          Clock now = {});
  ~StreamRegistry();

  // Adds a stream of a caller. ResourceExhausted beyond the limit in total or
  // that of one caller, Unavailable after StopAll.
  absl::Status Add(const std::shared_ptr<OpenStream>& stream,
                   const std::string& holder);
  void Remove(const OpenStream* stream);

  // Returns the limit of one caller: half of all, so that others find a place.
  size_t most_of_one() const { return limit_ < 2 ? limit_ : limit_ / 2; }

  // Ends the streams whose clients have been idle for too long. The registry
  // does so by itself; tests that drive the clock call it. A wait counts from
  // the first call that sees it.
  void EndIdle();

  // Stops every stream and refuses later ones. Idempotent.
  void StopAll();

 private:
  struct Entry {
    std::weak_ptr<OpenStream> stream;
    std::string holder;
    uint64_t turn = 0;  // last one seen
    absl::Time since = absl::InfinitePast();
  };

  void Sweep();
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return ended_ || !streams_.empty();
  }

  const size_t limit_;
  const absl::Duration patience_;
  const Clock now_;
  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<const OpenStream*, Entry> streams_
      ABSL_GUARDED_BY(mutex_);
  // Number of streams of each caller who has any.
  absl::flat_hash_map<std::string, size_t> held_ ABSL_GUARDED_BY(mutex_);
  std::thread sweeper_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
