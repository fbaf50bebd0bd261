// The models of the back end "repeat" (repeat_responses.h) that folders of the
// model repository define. Each is served by the server itself, as one version.
//
// Thread-safety: any thread. Ownership: borrows what it is made with. The
// registry holds the handles of the served models.
//
// Invariant: nothing that may let go of a last handle happens with mutex_ held.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/model_registry.h"
#include "server/serving/serving_observer.h"
#include "server/serving/wake_timer.h"

namespace gpupool::server {

class Serving;

// Name of the back end in config.pbtxt.
inline constexpr char kRepeatBackend[] = "repeat";

// Parts of serving that outlive the models. `observer` may be null.
struct RepeatNeeds {
  ModelRegistry* registry = nullptr;
  WakeTimer* timer = nullptr;
  ServingObserver* observer = nullptr;
};

// Returns the parts of a server's serving.
RepeatNeeds RepeatNeedsOf(Serving& serving);

class RepeatModels {
 public:
  // Ids are above those of stored versions and of ensembles.
  static constexpr uint64_t kFirstId = uint64_t{3} << 62;

  explicit RepeatModels(const RepeatNeeds& needs) : needs_(needs) {}

  // Serves a model of this name as this version, in place of one with another
  // number. FailedPrecondition: another model of the name is served.
  absl::Status Define(const std::string& model, uint64_t version);
  // Forgets the model. Calls `drained` when its requests have ended, at once if
  // there is none of the name.
  void Remove(absl::string_view model, std::function<void()> drained);

  bool Has(absl::string_view model) const;
  std::vector<std::string> Names() const;
  // Returns a row for each model, by name. The error of a row says why it is
  // not served.
  std::vector<v1::ModelVersion> Rows() const;

 private:
  struct Entry {
    uint64_t id = 0;
    uint64_t version = 0;
  };

  VersionHandle Make(const std::string& model, const Entry& entry) const;

  const RepeatNeeds needs_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = kFirstId;
};

}  // namespace gpupool::server
