// The bounded queue in front of the control thread. An item is work to be done
// inside a transaction.
//
// Thread-safety: any number of producers, one consumer.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace gpupool::server {

class Transaction;
using Work = std::function<void(Transaction&)>;

class WorkQueue {
 public:
  explicit WorkQueue(size_t limit) : limit_(limit) {}

  enum class Result { kTaken, kFull, kClosed };

  // Adds work of a client. Refuses when `limit` items wait.
  Result TryPush(Work work);
  // Adds work that must not be lost. Blocks while 2 * limit items wait, unless
  // the consumer itself calls it. Never returns kFull.
  Result Push(Work work);

  // Returns up to `max` items in order. Waits for the first one until
  // `deadline`. Returns none at the deadline, or when closed and empty.
  std::vector<Work> PopBatch(size_t max, absl::Time deadline);

  // Lets no more items in; waiting ones can still be popped. Wakes everybody.
  void Close();
  bool closed_and_empty() const;
  size_t size() const;
  size_t limit() const { return limit_; }
  // Sets the thread that will call PopBatch.
  void SetConsumer(std::thread::id id);

 private:
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || items_.size() < 2 * limit_;
  }
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || !items_.empty();
  }

  const size_t limit_;
  mutable absl::Mutex mutex_;
  std::deque<Work> items_ ABSL_GUARDED_BY(mutex_);
  std::thread::id consumer_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gpupool::server
