// Reports and replies on their way from the compute thread to the control
// thread, in order. Bounded: Push blocks while kMaxItems wait, so that a slow
// disk slows training down instead of filling memory.
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

// A reply for the connection that asked. Dropped on a newer connection.
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
  // Closes the box. Push must not be called again.
  void Close();

  // Returns everything that waits and drains fd().
  std::vector<Item> TakeAll();
  // Returns true when the box is closed and everything has been taken.
  bool finished() const;

  // Returns a descriptor that is readable when there is something to take or
  // the box has been closed.
  int fd() const { return wake_.get(); }

 private:
  void Wake();

  const UniqueFd wake_;
  mutable absl::Mutex mutex_;
  std::vector<Item> items_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gpupool::server
