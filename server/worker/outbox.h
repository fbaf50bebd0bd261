// What the compute thread hands to the control thread: reports and replies, in
// order. Bounded: Push waits while kMaxItems are in it, so a slow disk slows
// training down instead of filling memory.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {

// A reply belongs to the connection that asked; on a newer one it is dropped.
struct Reply {
  uint64_t connection = 0;
  worker::v1::FromWorker message;
};

class Outbox {
 public:
  using Item = std::variant<worker::v1::Report, Reply>;
  static constexpr size_t kMaxItems = 4096;

  Outbox();

  void Push(Item item);
  // No further item will come; Push must not be called again.
  void Close();

  // Everything that waits; drains fd().
  std::vector<Item> TakeAll();
  // Closed, and everything has been taken.
  bool finished() const;

  // Readable when there is something to take or the box has been closed.
  int fd() const { return wake_.get(); }

 private:
  void Wake();

  const UniqueFd wake_;
  mutable absl::Mutex mutex_;
  std::vector<Item> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gpupool::server
