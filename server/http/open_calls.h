// Private to server/http: the rpcs that requests of one kind make now. Each
// occupies a thread of the HTTP port, so their number is bounded.
//
// Thread-safety: any thread. Ownership: must outlive its calls.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/http/generic_call.h"

namespace gpupool::server {

class OpenCalls {
 public:
  // `kind` names the calls in messages: "streams".
  OpenCalls(std::string kind, size_t most);

  // Returns a call that is not started and counts until it is destroyed.
  // Unavailable when `most` are open, and after Close.
  absl::StatusOr<std::shared_ptr<GenericCall>> Open(
      const std::shared_ptr<grpc::Channel>& channel, absl::Time deadline);

  // Returns the error that Open would return now, without opening a call.
  absl::Status CheckRoom() const;

  // Returns the status of a call that has ended. Unavailable for a call that
  // Close has cancelled.
  absl::Status StatusOf(const GenericCall& call) const;

  // Refuses further calls, and cancels all. Does not block.
  void CancelAll();

  // Refuses further calls, cancels those that are not destroyed by `end`, and
  // waits until all are destroyed.
  void Close(absl::Time end);

 private:
  void Remove(GenericCall* call);
  absl::Status Room() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsEmpty() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return calls_.empty();
  }

  const std::string kind_;
  const size_t most_;
  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<GenericCall*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
