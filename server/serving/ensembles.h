// The ensembles of the server. Each is served as a version of its own while the
// versions of all its steps are served, and hidden while one of them is not.
//
// Thread-safety: any thread. Ownership: borrows what it is made with. The
// registry holds the handles of the served ensembles.
//
// Invariants
//  1. An ensemble is in the registry if and only if its `served` is not null.
//  2. Nothing that may let go of a last handle happens with mutex_ held.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/ensemble_binding.h"
#include "server/serving/ensemble_executor.h"
#include "server/serving/ensemble_graph.h"
#include "server/serving/ensemble_spec.h"
#include "server/serving/model_registry.h"
#include "server/serving/router.h"
#include "server/serving/serving_observer.h"

namespace gpupool::server {

class Ensembles {
 public:
  // Ids of ensembles are above those of stored versions.
  static constexpr uint64_t kFirstId = uint64_t{1} << 63;

  // `stored` returns the stored versions of a model. `observer` may be null.
  Ensembles(ModelRegistry* registry, Router::Catalogue stored,
            ServingObserver* observer);

  // Defines the ensemble, in place of another one of its name. It is served as
  // soon as its steps are. InvalidArgument: an error of MakeEnsembleGraph;
  // nothing is changed then.
  absl::Status Define(const EnsembleSpec& spec);

  // Forgets the ensemble. Calls `drained` when its requests have ended, at once
  // if there is none of the name.
  void Remove(absl::string_view model, std::function<void()> drained);

  // Looks at the steps again. Call it after every change of the registry's
  // other versions.
  void Refresh();
  // Hides the ensemble of this name, because a stored version takes the name.
  void MakeRoomFor(absl::string_view model);

  bool Has(absl::string_view model) const;
  std::vector<std::string> Names() const;
  // Returns a row for each ensemble, by name. The error of a row says why it is
  // not served.
  std::vector<v1::ModelVersion> Rows() const;
  // Returns the stored versions of a model, and its row if it is an ensemble.
  absl::StatusOr<v1::Model> FindModel(absl::string_view model) const;
  // Returns OK if the ensemble is served. Unavailable has the reason why not;
  // NotFound: there is no such ensemble.
  absl::Status CheckServed(absl::string_view model) const;
  // Returns the models of the steps, each once; empty: no such ensemble.
  std::vector<std::string> ModelsOf(absl::string_view model) const;

 private:
  struct Entry {
    std::shared_ptr<const EnsembleSpec> spec;
    std::shared_ptr<const EnsembleGraph> graph;
    uint64_t id = 0;
    std::shared_ptr<const EnsembleBinding> binding;  // of `served`
    std::shared_ptr<EnsembleExecutor> executor;      // of `served`
    VersionHandle served;                            // null: hidden
    absl::Status refused;  // why the steps cannot be bound; OK: one is missing
    bool name_taken = false;
  };
  // Versions of the steps of an entry. A null one is not served.
  struct Found {
    std::vector<VersionHandle> versions;
    bool complete = true;
    bool all_ready = true;  // false: the worker of one is lost
  };
  // Handles to let go without the lock.
  using Handles = std::vector<VersionHandle>;

  // Returns the names of models in the registry that are no ensembles.
  std::set<std::string> TakenNames(Handles* released) const;
  Found FindSteps(const Entry& entry, Handles* released) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RefreshEntry(Entry& entry, Handles* released)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Serve(Entry& entry, EnsembleBinding binding, Handles* released)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hide(Entry& entry, Handles* released)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A row, and the spec if the row does not say yet which step is missing.
  struct Draft {
    v1::ModelVersion row;
    std::shared_ptr<const EnsembleSpec> unexplained;
  };
  static Draft DraftOf(const Entry& entry);
  v1::ModelVersion Finish(Draft draft) const;
  // Returns the state of a step's model as the state of the ensemble, with the
  // reason; READY: the step is not missing.
  std::pair<v1::VersionState, std::string> StateOfStep(
      const EnsembleStep& step) const;

  ModelRegistry* const registry_;
  const Router::Catalogue stored_;
  ServingObserver* const observer_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = kFirstId;
};

}  // namespace gpupool::server
