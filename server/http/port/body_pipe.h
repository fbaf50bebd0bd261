// Carries a body from the thread that writes it to the connection that sends
// it. Holds one text that is not taken yet, so a slow client slows the writer.
//
// Thread-safety: one thread writes, another takes.
#pragma once

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/http/port/http_response.h"

namespace gpupool::server {

class BodyPipe : public BodyWriter {
 public:
  struct Taken {
    std::string text;
    bool finished = false;  // nothing follows
  };

  // Calls `wake` on the writer's thread whenever there is something to take.
  explicit BodyPipe(std::function<void()> wake);

  bool Write(std::string text) override;
  bool is_open() const override;
  // Says that the body is whole. Does not block.
  void Finish();

  // Returns what waits, and makes room for the next text.
  Taken Take();
  // Says that nothing more is taken.
  void Close();

 private:
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return text_.empty() || closed_;
  }

  const std::function<void()> wake_;
  mutable absl::Mutex mutex_;
  std::string text_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gpupool::server
