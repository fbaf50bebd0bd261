// Versions whose files changed and that are being replaced by the new ones. For
// a moment the store has neither of the two; clients must not take that for a
// model that is gone.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

class ReplacedVersions {
 public:
  using FindModel =
      std::function<absl::StatusOr<v1::Model>(absl::string_view model)>;

  // Marks a version as being replaced while it exists.
  class Mark {
   public:
    // `versions` must outlive the mark; null: there is nothing to mark.
    Mark(ReplacedVersions* versions, std::string model, uint64_t number);
    ~Mark();
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    ReplacedVersions* const versions_;
    const std::pair<std::string, uint64_t> key_;
  };

  // Returns what `find` returns, but versions that are being replaced and are
  // not served are LOADING there, also when `find` does not know them.
  absl::StatusOr<v1::Model> WithReplaced(absl::string_view model,
                                         const FindModel& find) const;

 private:
  std::set<uint64_t> Of(absl::string_view model) const;

  mutable absl::Mutex mutex_;
  std::multiset<std::pair<std::string, uint64_t>> marked_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
