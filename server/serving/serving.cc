#include "server/serving/serving.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/serving/sequence_executor.h"
#include "server/serving/text_executor.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {

Serving::Serving(ServingDependencies dependencies)
    : dependencies_(std::move(dependencies)),
      ensembles_(&registry_, dependencies_.catalogue, dependencies_.observer),
      router_(&registry_, [this](absl::string_view model) {
        return ensembles_.FindModel(model);
      }) {
  if (dependencies_.target_delay <= absl::ZeroDuration()) return;
  monitor_ = std::make_unique<LoadMonitor>(
      scheduler::LoadOptions{.target = dependencies_.target_delay},
      dependencies_.load_changed);
  watch_ = std::make_unique<WakeTimer>();
  WatchLoad();
}

Serving::~Serving() { Stop(); }

absl::StatusOr<VersionHandle> Serving::MakeVersion(
    const v1::ModelVersion& version) {
  ASSIGN_OR_RETURN(VersionFacts facts, MakeVersionFacts(version));
  if (facts.texts != nullptr) return MakeTextVersion(std::move(facts));
  BatcherOptions options;
  options.label = facts.label;
  options.version_id = facts.id;
  options.inputs.assign(facts.slot_inputs().begin(), facts.slot_inputs().end());
  options.outputs.assign(facts.slot_outputs().begin(),
                         facts.slot_outputs().end());
  options.batch.max_batch_size = facts.max_batch_size;
  options.batch.max_queue_delay = facts.max_queue_delay;
  options.computes_alone = facts.computes_alone;
  options.max_queue_size = facts.max_queue_size;
  if (facts.sequences != nullptr) {
    options.batch.enough_rows = facts.sequences->options.enough_requests();
    // Each sequence has a request there at most, and must never be refused.
    options.max_queue_size =
        std::max(facts.max_queue_size, facts.sequences->max_sequences);
  }
  std::unique_ptr<VersionObserver> observer;
  if (dependencies_.observer != nullptr) {
    observer = dependencies_.observer->Observe(facts.model, facts.version,
                                               options.max_queue_size);
  }
  auto batcher = std::make_shared<Batcher>(std::move(options), &timer_,
                                           std::move(observer));
  if (facts.decoupled) {
    if (!dependencies_.decouple) {
      return absl::UnimplementedError("decoupled versions are not served");
    }
    auto executor = dependencies_.decouple(facts, batcher, &timer_);
    return std::make_shared<ServedVersion>(std::move(facts),
                                           std::move(executor), batcher.get());
  }
  if (facts.sequences == nullptr) {
    return std::make_shared<ServedVersion>(std::move(facts),
                                           std::move(batcher));
  }
  auto executor = std::make_shared<SequenceExecutor>(
      SequenceParts{.plan = facts.sequences,
                    .batches = batcher,
                    .timer = &timer_,
                    .observer = batcher->observer()},
      facts.max_queue_size);
  return std::make_shared<ServedVersion>(std::move(facts), std::move(executor),
                                         batcher.get());
}

VersionHandle Serving::MakeTextVersion(VersionFacts facts) {
  TextParts parts{.label = facts.label,
                  .runner = facts.texts,
                  .inputs = facts.inputs,
                  .outputs = facts.outputs,
                  .max_batch_size = facts.max_batch_size,
                  .max_queue_size = facts.max_queue_size,
                  .threads = &text_threads_,
                  .observer = nullptr};
  if (dependencies_.observer != nullptr) {
    parts.observer = dependencies_.observer->Observe(facts.model, facts.version,
                                                     facts.max_queue_size);
  }
  auto executor = std::make_shared<TextExecutor>(std::move(parts));
  return std::make_shared<ServedVersion>(std::move(facts), std::move(executor));
}

void Serving::WatchLoad() {
  const absl::Time now = absl::Now();
  monitor_->Look(registry_.All(), now);
  watch_->CallAt(now + LoadMonitor::kInterval, [this] { WatchLoad(); });
}

void Serving::VersionReady(const v1::ModelVersion& version,
                           const std::string& device) {
  VersionHandle handle = registry_.FindById(version.id());
  const bool known = handle != nullptr;
  if (!known) {
    absl::StatusOr<VersionHandle> made = MakeVersion(version);
    if (!made.ok()) {
      spdlog::error("version cannot be served model={} version={} error=\"{}\"",
                    version.model(), version.version(),
                    made.status().ToString());
      return;
    }
    handle = *std::move(made);
  }
  handle->set_device(device);
  // The ring first: once found by name, the version gets requests.
  if (handle->has_batcher()) {
    handle->batcher().SetRing(dependencies_.ring(device));
  }
  if (known) {
    registry_.Resume(version.id());
  } else {
    ensembles_.MakeRoomFor(version.model());
    AddVersion(handle);
  }
  ensembles_.Refresh();
  spdlog::info("version ready model={} version={} device={}", version.model(),
               version.version(), device);
}

void Serving::VersionDraining(uint64_t version_id,
                              std::function<void()> drained) {
  registry_.Drain(version_id, [cache = dependencies_.cache, version_id,
                               drained = std::move(drained)] {
    // No request holds the version any more, so none adds an answer after this.
    if (cache != nullptr) cache->DropVersion(version_id);
    drained();
  });
  ensembles_.Refresh();
}

// With the lock, so that SetCaching either finds the version or is seen here.
void Serving::AddVersion(const VersionHandle& version) {
  absl::MutexLock lock(&caching_mutex_);
  if (cached_models_.contains(version->facts().model)) {
    version->set_cache(dependencies_.cache);
  }
  registry_.Add(version);
}

void Serving::SetCaching(const std::string& model, bool on) {
  ResponseCache* const cache = dependencies_.cache;
  if (cache == nullptr) return;
  // Let go without the lock: the last handle may call back.
  std::vector<VersionHandle> versions;
  absl::MutexLock lock(&caching_mutex_);
  if (on) {
    cached_models_.insert(model);
  } else {
    cached_models_.erase(model);
  }
  versions = registry_.All();
  for (const VersionHandle& version : versions) {
    if (version->facts().model != model) continue;
    version->set_cache(on ? cache : nullptr);
    if (!on) cache->DropVersion(version->facts().id);
  }
}

void Serving::WorkerLost(const std::string& device) {
  for (const VersionHandle& handle : registry_.All()) {
    if (handle->device() != device) continue;
    // Hidden from those who ask whether it is ready. Requests find it all the
    // same (Router::RouteToQueue) and wait in its batcher.
    registry_.Suspend(handle->facts().id);
    if (handle->has_batcher()) handle->batcher().SetRing(nullptr);
  }
  ensembles_.Refresh();
}

bool Serving::accepting() const {
  return accepting_.load(std::memory_order_relaxed);
}

void Serving::Start() { accepting_.store(true, std::memory_order_relaxed); }

void Serving::Stop() {
  accepting_.store(false, std::memory_order_relaxed);
  for (const VersionHandle& handle : registry_.All()) {
    handle->executor().Close(
        absl::UnavailableError("the server is shutting down and has stopped "
                               "accepting new requests"));
  }
}

}  // namespace gpupool::server
