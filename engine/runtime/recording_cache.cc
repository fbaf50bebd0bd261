#include "engine/runtime/recording_cache.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// The bounds of RecordingBytes, which the two back ends share.
constexpr uint64_t kMostBytes = uint64_t{256} << 20;
constexpr uint64_t kShare = 256;
constexpr uint64_t kBackends = 2;

}  // namespace

uint64_t RecordingBytes(uint64_t device_bytes) {
  return std::min(kMostBytes, device_bytes / kShare);
}

uint64_t BackendRecordingBytes(uint64_t device_bytes) {
  return RecordingBytes(device_bytes) / kBackends;
}

class RecordingCache::CachedRecording : public Recording {
 public:
  CachedRecording(RecordingCache* cache, std::function<absl::Status()> queue)
      : cache_(cache), queue_(std::move(queue)) {}
  ~CachedRecording() override { Drop(); }
  CachedRecording(const CachedRecording&) = delete;
  CachedRecording& operator=(const CachedRecording&) = delete;

  absl::Status Start() override;
  // Drops the capture, if there is one.
  void Drop();

 private:
  absl::Status Capture();

  RecordingCache* const cache_;
  const std::function<absl::Status()> queue_;
  bool ran_ = false;
  bool plain_ = false;  // cannot be captured
  std::unique_ptr<CapturedRun> captured_;
  uint64_t bytes_ = 0;  // size of captured_, as counted in the cache
  // Position in recent_ while captured.
  std::list<CachedRecording*>::iterator place_;
};

void RecordingCache::CachedRecording::Drop() {
  if (captured_ == nullptr) return;
  captured_.reset();
  cache_->recent_.erase(place_);
  cache_->bytes_ -= bytes_;
  cache_->counters_->captures -= 1;
  cache_->counters_->bytes -= bytes_;
}

absl::Status RecordingCache::CachedRecording::Capture() {
  ASSIGN_OR_RETURN(auto captured, cache_->capturer_->Capture(queue_));
  if (captured == nullptr) {
    plain_ = true;
    return absl::OkStatus();
  }
  bytes_ = captured->bytes();
  if (bytes_ > cache_->options_.bytes) {
    plain_ = true;
    cache_->RefuseCapture(bytes_);
    return absl::OkStatus();
  }
  captured_ = std::move(captured);
  place_ = cache_->recent_.insert(cache_->recent_.begin(), this);
  cache_->bytes_ += bytes_;
  cache_->counters_->captures += 1;
  cache_->counters_->bytes += bytes_;
  cache_->Evict();
  return absl::OkStatus();
}

absl::Status RecordingCache::CachedRecording::Start() {
  // The first run is never captured: it would capture the set-up of libraries.
  if (captured_ == nullptr && ran_ && !plain_) RETURN_IF_ERROR(Capture());
  if (captured_ == nullptr) {
    ran_ = true;
    return queue_();
  }
  auto& recent = cache_->recent_;
  // Moves the capture to the front; `place_` stays valid.
  recent.splice(recent.begin(), recent, place_);
  return captured_->Launch();
}

void RecordingCache::Evict() {
  while (recent_.size() > options_.captures || bytes_ > options_.bytes) {
    recent_.back()->Drop();
    ++evictions_;
    counters_->evictions += 1;
  }
}

void RecordingCache::RefuseCapture(uint64_t bytes) {
  counters_->refusals += 1;
  if (refusal_was_said_ || options_.log == nullptr) return;
  refusal_was_said_ = true;
  options_.log(absl::StrCat("a recorded run takes ", bytes,
                            " bytes of the device, more than the ",
                            options_.bytes,
                            " that recordings may take; it is queued launch by "
                            "launch, as are others like it"));
}

std::unique_ptr<Recording> RecordingCache::Record(
    std::function<absl::Status()> queue) {
  return std::make_unique<CachedRecording>(this, std::move(queue));
}

}  // namespace gpupool::engine
