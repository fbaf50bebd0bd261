#include "server/worker/checkpoint_writer.h"

#include <sys/prctl.h>

#include <utility>

namespace gpupool::server {

CheckpointWriter::CheckpointWriter() : thread_([this] { Run(); }) {}

CheckpointWriter::~CheckpointWriter() { Finish(); }

void CheckpointWriter::WaitUntilLeft(size_t most) const {
  absl::MutexLock lock(&mutex_);
  const auto few = [this, most]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return writes_.size() <= most;
  };
  mutex_.Await(absl::Condition(&few));
}

void CheckpointWriter::Post(std::function<void()> write) {
  absl::MutexLock lock(&mutex_);
  if (!finished_) writes_.push_back(std::move(write));
}

void CheckpointWriter::Finish() {
  {
    absl::MutexLock lock(&mutex_);
    finished_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::Run() {
  ::prctl(PR_SET_NAME, "checkpoints");
  while (true) {
    std::function<void()> run;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return finished_ || !writes_.empty();
      };
      mutex_.Await(absl::Condition(&has_work));
      if (writes_.empty()) return;
      run = std::move(writes_.front());
    }
    run();
    run = nullptr;  // gives the copy's memory back
    absl::MutexLock lock(&mutex_);
    writes_.pop_front();
  }
}

}  // namespace gpupool::server
