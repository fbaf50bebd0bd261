#include "server/serving/text/text_threads.h"

#include <utility>

namespace gpupool::server {

TextThreads::~TextThreads() {
  std::vector<std::thread> threads;
  std::deque<std::function<void()>> dropped;  // destroyed without the lock
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    threads.swap(threads_);
    dropped.swap(waiting_);
  }
  for (std::thread& thread : threads) thread.join();
}

void TextThreads::Post(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  waiting_.push_back(std::move(work));
  while (!stop_ && threads_.size() < kThreads) {
    threads_.emplace_back([this] { Loop(); });
  }
}

void TextThreads::Loop() {
  const auto ready = [this] {
    mutex_.AssertReaderHeld();
    return stop_ || !waiting_.empty();
  };
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (stop_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace gpupool::server
