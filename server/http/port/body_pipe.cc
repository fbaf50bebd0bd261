#include "server/http/port/body_pipe.h"

#include <utility>

namespace gpupool::server {

BodyPipe::BodyPipe(std::function<void()> wake) : wake_(std::move(wake)) {}

bool BodyPipe::Write(std::string text) {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &BodyPipe::HasRoom));
    if (closed_) return false;
    text_ = std::move(text);
  }
  wake_();
  return true;
}

bool BodyPipe::is_open() const {
  absl::MutexLock lock(&mutex_);
  return !closed_;
}

void BodyPipe::Finish() {
  {
    absl::MutexLock lock(&mutex_);
    finished_ = true;
  }
  wake_();
}

BodyPipe::Taken BodyPipe::Take() {
  absl::MutexLock lock(&mutex_);
  return {std::exchange(text_, {}), finished_};
}

void BodyPipe::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

}  // namespace gpupool::server
