#include "engine/runtime/recording_cache.h"

#include <utility>

#include "engine/base/status_macros.h"

namespace gpupool::engine {

class RecordingCache::CachedRecording : public Recording {
 public:
  CachedRecording(RecordingCache* cache, std::function<absl::Status()> queue)
      : cache_(cache), queue_(std::move(queue)) {}
  ~CachedRecording() override { Drop(); }
  CachedRecording(const CachedRecording&) = delete;
  CachedRecording& operator=(const CachedRecording&) = delete;

  absl::Status Start() override;
  // Gives the capture up, if there is one.
  void Drop();

 private:
  absl::Status Capture();

  RecordingCache* const cache_;
  const std::function<absl::Status()> queue_;
  bool ran_ = false;
  bool plain_ = false;  // cannot be captured
  std::unique_ptr<CapturedRun> captured_;
  std::list<CachedRecording*>::iterator place_;  // in recent_, when captured
};

void RecordingCache::CachedRecording::Drop() {
  if (captured_ == nullptr) return;
  captured_.reset();
  cache_->recent_.erase(place_);
}

absl::Status RecordingCache::CachedRecording::Capture() {
  auto& recent = cache_->recent_;
  ASSIGN_OR_RETURN(captured_, cache_->capturer_->Capture(queue_));
  if (captured_ == nullptr) {
    plain_ = true;
    return absl::OkStatus();
  }
  place_ = recent.insert(recent.begin(), this);
  if (recent.size() > cache_->most_) {
    recent.back()->Drop();
    ++cache_->evictions_;
  }
  return absl::OkStatus();
}

absl::Status RecordingCache::CachedRecording::Start() {
  if (captured_ == nullptr && ran_ && !plain_) RETURN_IF_ERROR(Capture());
  if (captured_ == nullptr) {
    ran_ = true;
    return queue_();
  }
  auto& recent = cache_->recent_;
  recent.splice(recent.begin(), recent, place_);
  return captured_->Launch();
}

std::unique_ptr<Recording> RecordingCache::Record(
    std::function<absl::Status()> queue) {
  return std::make_unique<CachedRecording>(this, std::move(queue));
}

}  // namespace gpupool::engine
