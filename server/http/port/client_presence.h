// Tells the thread that makes an answer that its client is lost. A client that
// closes its connection looks like one that only ends sending and waits for its
// answer, so it is lost only when the connection is reset or breaks.
//
// Thread-safety: any thread. Ownership: shared by a connection and its
// requests.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::server {

class ClientPresence {
 public:
  // Says that the client is lost. It never comes back.
  void Lose() {
    absl::MutexLock lock(&mutex_);
    lost_ = true;
    if (then_ != nullptr) then_();
  }

 private:
  friend class OnClientLoss;

  void Set(std::function<void()> then) {
    absl::MutexLock lock(&mutex_);
    then_ = std::move(then);
    if (lost_ && then_ != nullptr) then_();
  }

  absl::Mutex mutex_;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> then_ ABSL_GUARDED_BY(mutex_);
};

// Calls `then` when the client is lost, or at once when it is lost already. It
// must not block. The destructor waits while it runs. At most one at a time for
// each client; does nothing if `client` is null.
class OnClientLoss {
 public:
  OnClientLoss(std::shared_ptr<ClientPresence> client,
               std::function<void()> then)
      : client_(std::move(client)) {
    if (client_ != nullptr) client_->Set(std::move(then));
  }
  OnClientLoss(const OnClientLoss&) = delete;
  OnClientLoss& operator=(const OnClientLoss&) = delete;
  ~OnClientLoss() {
    if (client_ != nullptr) client_->Set(nullptr);
  }

 private:
  const std::shared_ptr<ClientPresence> client_;
};

}  // namespace gpupool::server
