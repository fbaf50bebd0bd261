// The serving side of the daemon in one object: the served versions, the
// look-up by name, and the interface through which control tells about versions
// and workers.
//
// Thread-safety: any thread; the ServingSink functions are called on the
// control thread. Ownership: owns registry, ensembles, router, batchers and
// timer. Handles that requests hold must be gone before it is destroyed (Stop
// answers those requests).
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/v1/model.pb.h"
#include "server/control/serving_sink.h"
#include "server/ipc/slot_ring.h"
#include "server/serving/ensembles.h"
#include "server/serving/load_monitor.h"
#include "server/serving/model_registry.h"
#include "server/serving/response_cache.h"
#include "server/serving/router.h"
#include "server/serving/serving_observer.h"
#include "server/serving/text/text_threads.h"
#include "server/serving/wake_timer.h"

namespace gpupool::server {

struct ServingDependencies {
  // Returns the ring of a device's worker; null while the worker is lost.
  std::function<std::shared_ptr<SlotRingClient>(const std::string& device)>
      ring;
  Router::Catalogue catalogue;
  ServingObserver* observer = nullptr;  // may be null; outlives serving
  // Makes the executor of a decoupled version of a Loop, which is answered
  // through the batcher (decoupled/decoupled_executor.h). Empty: such versions
  // are not served.
  std::function<std::shared_ptr<CallExecutor>(const VersionFacts& facts,
                                              std::shared_ptr<Batcher> batcher,
                                              WakeTimer* timer)>
      decouple = {};
  // Wait of requests, on top of a version's own max_queue_delay, that puts a
  // version under load. Zero: no monitoring.
  absl::Duration target_delay = {};
  // Receives each change, on a thread of its own. May block.
  std::function<void(uint64_t version, bool under_load)> load_changed = {};
  // Keeps answers of the models of SetCaching; null: none are kept. Outlives
  // serving.
  ResponseCache* cache = nullptr;
};

class Serving : public ServingSink {
 public:
  explicit Serving(ServingDependencies dependencies);
  ~Serving() override;

  // Implement ServingSink; see there.
  void VersionReady(const v1::ModelVersion& version,
                    const std::string& device) override;
  void VersionDraining(uint64_t version_id,
                       std::function<void()> drained) override;
  void WorkerLost(const std::string& device) override;

  // Sets whether answers of all versions of the model are kept, also of those
  // that become ready later. No-op without a cache.
  void SetCaching(const std::string& model, bool on);

  const Router& router() const { return router_; }
  const ModelRegistry& registry() const { return registry_; }
  Ensembles& ensembles() { return ensembles_; }
  // Return what other makers of versions need. The timer outlives all versions.
  ModelRegistry* mutable_registry() { return &registry_; }
  WakeTimer* timer() { return &timer_; }
  ServingObserver* observer() const { return dependencies_.observer; }
  const Ensembles& ensembles() const { return ensembles_; }

  // Returns whether inference requests are taken: after Start, before Stop.
  bool accepting() const;
  void Start();
  // Answers all waiting and all later requests with Unavailable. Batches in
  // flight end by themselves. Idempotent.
  void Stop();

 private:
  absl::StatusOr<VersionHandle> MakeVersion(const v1::ModelVersion& version);
  VersionHandle MakeTextVersion(VersionFacts facts);
  // Makes a version that is new to the registry known to it.
  void AddVersion(const VersionHandle& version);
  // Looks at the load and asks the timer for the next look.
  void WatchLoad();

  const ServingDependencies dependencies_;
  WakeTimer timer_;
  TextThreads text_threads_;  // before the versions that post to it
  ModelRegistry registry_;
  Ensembles ensembles_;
  Router router_;
  std::atomic<bool> accepting_{false};
  absl::Mutex caching_mutex_;
  absl::flat_hash_set<std::string> cached_models_
      ABSL_GUARDED_BY(caching_mutex_);
  std::unique_ptr<LoadMonitor> monitor_;  // null: no monitoring
  std::unique_ptr<WakeTimer> watch_;      // last member, so that it ends first
};

}  // namespace gpupool::server
