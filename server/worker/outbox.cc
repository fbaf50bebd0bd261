#include "server/worker/outbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "engine/base/check.h"

namespace gpupool::server {

Outbox::Outbox() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  GPUPOOL_CHECK(wake_.valid());
}

void Outbox::Push(Item item) {
  {
    absl::MutexLock lock(&mutex_);
    const auto has_room = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return items_.size() < kMaxItems;
    };
    mutex_.Await(absl::Condition(&has_room));
    items_.push_back(std::move(item));
  }
  Wake();
}

void Outbox::Close() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  Wake();
}

std::vector<Outbox::Item> Outbox::TakeAll() {
  uint64_t count = 0;
  GPUPOOL_CHECK(::read(wake_.get(), &count, sizeof(count)) > 0 ||
                errno == EAGAIN);
  absl::MutexLock lock(&mutex_);
  return std::exchange(items_, {});
}

bool Outbox::finished() const {
  absl::MutexLock lock(&mutex_);
  return closed_ && items_.empty();
}

void Outbox::Wake() {
  const uint64_t one = 1;
  GPUPOOL_CHECK(::write(wake_.get(), &one, sizeof(one)) > 0 || errno == EAGAIN);
}

}  // namespace gpupool::server
