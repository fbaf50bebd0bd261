#include "server/api/rpc/stream_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

absl::Status Stopping() {
  return absl::UnavailableError(
      "the server is stopping; connect again and resume");
}

}  // namespace

absl::Status StreamRegistry::Add(const std::shared_ptr<OpenStream>& stream) {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return Stopping();
  if (streams_.size() >= limit_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server has its limit of ", limit_,
                     " open streams of this kind; try again later"));
  }
  streams_.emplace(stream.get(), stream);
  return absl::OkStatus();
}

void StreamRegistry::Remove(const OpenStream* stream) {
  absl::MutexLock lock(&mutex_);
  streams_.erase(stream);
}

void StreamRegistry::StopAll() {
  absl::flat_hash_map<const OpenStream*, std::weak_ptr<OpenStream>> streams;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    streams = std::exchange(streams_, {});
  }
  // Outside the lock, since a stream may end, and call Remove, inside Stop.
  for (const auto& [key, weak] : streams) {
    if (const auto stream = weak.lock()) stream->Stop(Stopping());
  }
}

}  // namespace gpupool::server
