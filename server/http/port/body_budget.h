// A bound on the bytes of all bodies that are in memory at a time. A body's
// place is taken, and grows, before its bytes are read.
//
// Thread-safety: any thread. Ownership: must outlive its places.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::server {

class BodyBudget {
 public:
  // The bytes of one body. Gives them back when destroyed.
  class Place {
   public:
    Place(Place&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)),
          bytes_(other.bytes_) {}
    Place& operator=(Place&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Place() {
      if (budget_ != nullptr) budget_->GiveBack(bytes_);
    }

    // Makes the place at least this large. Returns false, and changes nothing,
    // when the bytes do not fit beside the others.
    bool GrowTo(uint64_t bytes) {
      if (bytes <= bytes_) return true;
      if (!budget_->Add(bytes - bytes_)) return false;
      bytes_ = bytes;
      return true;
    }

   private:
    friend class BodyBudget;
    Place(BodyBudget* budget, uint64_t bytes)
        : budget_(budget), bytes_(bytes) {}
    BodyBudget* budget_;
    uint64_t bytes_;
  };

  explicit BodyBudget(uint64_t most) : most_(most) {}

  // Returns a place, or nothing when the bytes do not fit beside the others.
  std::optional<Place> Take(uint64_t bytes) {
    if (!Add(bytes)) return std::nullopt;
    return Place(this, bytes);
  }

  uint64_t most() const { return most_; }

 private:
  bool Add(uint64_t bytes) {
    absl::MutexLock lock(&mutex_);
    if (bytes > most_ - used_) return false;
    used_ += bytes;
    return true;
  }

  void GiveBack(uint64_t bytes) {
    absl::MutexLock lock(&mutex_);
    used_ -= bytes;
  }

  const uint64_t most_;
  absl::Mutex mutex_;
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gpupool::server
