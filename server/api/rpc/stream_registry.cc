#include "server/api/rpc/stream_registry.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

absl::Status Stopping() {
  return absl::UnavailableError(
      "the server is stopping; connect again and resume");
}

// Returns a time that changes of the system's clock do not move.
absl::Time SteadyNow() {
  return absl::UnixEpoch() +
         absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

StreamRegistry::StreamRegistry(size_t limit, absl::Duration patience, Clock now)
    : limit_(limit),
      patience_(patience),
      now_(now != nullptr ? std::move(now) : SteadyNow) {}

StreamRegistry::~StreamRegistry() {
  std::thread sweeper;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    sweeper = std::move(sweeper_);
  }
  if (sweeper.joinable()) sweeper.join();
}

absl::Status StreamRegistry::Add(const std::shared_ptr<OpenStream>& stream,
                                 const std::string& holder) {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return Stopping();
  if (streams_.size() >= limit_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the server has its limit of ", limit_,
                     " open streams of this kind; try again later"));
  }
  const auto held = held_.find(holder);
  if (held != held_.end() && held->second >= most_of_one()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        holder, " has the limit of one caller, ", most_of_one(), " of the ",
        limit_, " open streams of this kind; end one of them first"));
  }
  if (!sweeper_.joinable() && patience_ < absl::InfiniteDuration()) {
    sweeper_ = std::thread([this] { Sweep(); });
  }
  ++held_[holder];
  streams_[stream.get()] = Entry{stream, holder, stream->turn(), now_()};
  return absl::OkStatus();
}

void StreamRegistry::Remove(const OpenStream* stream) {
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;  // refused, or stopped
  const auto held = held_.find(found->second.holder);
  if (--held->second == 0) held_.erase(held);
  streams_.erase(found);
}

void StreamRegistry::EndIdle() {
  // All are kept until the lock is free, since the last owner of a stream
  // destroys it.
  std::vector<std::shared_ptr<OpenStream>> seen;
  std::vector<OpenStream*> idle;
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = now_();
    for (auto& [key, entry] : streams_) {
      seen.push_back(entry.stream.lock());
      OpenStream* stream = seen.back().get();
      if (stream == nullptr) continue;
      const uint64_t turn = stream->turn();
      if (std::exchange(entry.turn, turn) != turn) {
        entry.since = now;
      } else if (turn % 2 == 1 && now - entry.since >= patience_) {
        entry.since = now;
        idle.push_back(stream);
      }
    }
  }
  const absl::Status status = absl::DeadlineExceededError(absl::StrCat(
      "the client took no step of the stream for ",
      absl::FormatDuration(patience_),
      ", so its place is free for others; call again, an upload goes on where "
      "the kept bytes end"));
  for (OpenStream* stream : idle) stream->EndIdle(status);
}

void StreamRegistry::Sweep() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &StreamRegistry::HasWork));
      if (mutex_.AwaitWithTimeout(absl::Condition(&ended_), patience_ / 8)) {
        return;
      }
    }
    EndIdle();
  }
}

void StreamRegistry::StopAll() {
  absl::flat_hash_map<const OpenStream*, Entry> streams;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    streams = std::exchange(streams_, {});
    held_.clear();
  }
  // Outside the lock, since a stream may end, and call Remove, inside Stop.
  for (const auto& [key, entry] : streams) {
    if (const auto stream = entry.stream.lock()) stream->Stop(Stopping());
  }
}

}  // namespace gpupool::server
