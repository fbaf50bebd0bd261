// The model versions that are served now. A handle pins a version: while it is
// held the version's worker keeps the version loaded. A name may mean another
// version at the next look-up, but never within one request.
//
// Thread-safety: any thread. Ownership: the registry holds one handle per
// version that was added and not drained.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/batcher.h"
#include "server/serving/ensemble_spec.h"
#include "server/serving/sequence_plan.h"
#include "server/serving/tensor/tensor_view.h"

namespace gpupool::server {

class ResponseCache;
class TextRunner;

// Constant facts of a version, with defaults filled in.
struct VersionFacts {
  uint64_t id = 0;  // unique in the server
  std::string model;
  uint64_t version = 0;
  std::string label;   // for messages: "'digits' version 1"
  std::string tenant;  // that the model belongs to; empty: none
  // Tensors that clients send and get.
  std::vector<TensorFormat> inputs;
  std::vector<TensorFormat> outputs;
  // The serving of sequences, with all tensors of the model; null: none.
  std::shared_ptr<const SequencePlan> sequences;
  // Whether requests may belong to sequences: of this version, or of steps.
  bool takes_sequences = false;
  // Whether a request has any number of responses.
  bool decoupled = false;
  // If it has one for each row that a Loop gave: the outputs that the Loop
  // stacks.
  std::vector<size_t> stacked;
  // Name in config.pbtxt of the server's own back end that answers; empty: a
  // worker does, or the steps of an ensemble.
  std::string own_backend;
  // The program of a model of texts, which the server computes; null: a device
  // computes the model.
  std::shared_ptr<const TextRunner> texts;
  // Dimensions of several sizes, by name.
  std::vector<SizedDimension> dimensions;
  bool batched = true;          // whether the tensors have a batch dimension
  bool computes_alone = false;  // whether a batch is one request
  uint32_t max_batch_size = 0;
  absl::Duration max_queue_delay;
  uint32_t max_queue_size = 0;
  uint64_t bytes = 0;  // planned peak on the device

  // Returns the tensors in slots, which are all of the model's.
  absl::Span<const TensorFormat> slot_inputs() const {
    return sequences == nullptr ? inputs : sequences->inputs;
  }
  absl::Span<const TensorFormat> slot_outputs() const {
    return sequences == nullptr ? outputs : sequences->outputs;
  }
};

// Returns the facts. InvalidArgument when the plan's inputs and outputs cannot
// be served: none or too many, some with a batch and some without, or an error
// of MakeTensorFormat or MakeSequencePlan. Also when the version is to be
// decoupled, and no Loop stacks an output, several do, or there is a batch
// dimension.
absl::StatusOr<VersionFacts> MakeVersionFacts(const v1::ModelVersion& version);

// Returns OK if requests for the version can be carried: MakeVersionFacts takes
// it, and one row of its inputs and outputs fits into `slot_bytes`.
absl::Status CheckServable(const v1::ModelVersion& version,
                           uint64_t slot_bytes);

class ServedVersion {
 public:
  ServedVersion(VersionFacts facts, std::shared_ptr<Batcher> batcher);
  // Makes a version whose calls go to `executor`, which uses the batcher.
  ServedVersion(VersionFacts facts, std::shared_ptr<CallExecutor> executor,
                Batcher* batcher);
  // Makes a version without a worker: `executor` answers by itself.
  ServedVersion(VersionFacts facts, std::shared_ptr<CallExecutor> executor);
  // Makes an ensemble.
  ServedVersion(VersionFacts facts, std::shared_ptr<CallExecutor> executor,
                std::shared_ptr<const EnsembleSpec> ensemble);
  // Runs the function given to OnLastHandleGone, on the thread that let go
  // last.
  ~ServedVersion();

  const VersionFacts& facts() const { return facts_; }
  CallExecutor& executor() const { return *executor_; }
  // Returns whether a worker computes, which an ensemble and the server's own
  // back ends do without.
  bool has_batcher() const { return batcher_ != nullptr; }
  // Returns the batcher of a version that has one.
  Batcher& batcher() const { return *batcher_; }
  // Returns the steps of an ensemble; null: it is none.
  const EnsembleSpec* ensemble() const { return ensemble_.get(); }
  // Returns where it is loaded, "cpu:0"; the last place while its worker is
  // lost. Empty for a version without a worker.
  std::string device() const;
  void set_device(std::string device);
  // Returns where its answers are kept; null: nowhere.
  ResponseCache* cache() const {
    return cache_.load(std::memory_order_relaxed);
  }
  // `cache` may be null; it must outlive the version.
  void set_cache(ResponseCache* cache) {
    cache_.store(cache, std::memory_order_relaxed);
  }
  void OnLastHandleGone(std::function<void()> callback);

 private:
  const VersionFacts facts_;
  const std::shared_ptr<CallExecutor> executor_;
  Batcher* const batcher_;  // executor_, or owned by it; null: no worker
  const std::shared_ptr<const EnsembleSpec> ensemble_;
  std::atomic<ResponseCache*> cache_{nullptr};
  mutable absl::Mutex mutex_;
  std::string device_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> last_handle_gone_ ABSL_GUARDED_BY(mutex_);
};

using VersionHandle = std::shared_ptr<ServedVersion>;

class ModelRegistry {
 public:
  // Adds the version to look-ups, in place of another one with its name and
  // number. A suspended version must be resumed instead of added again.
  void Add(VersionHandle version);
  // Returns the version if it was added and not drained, ready or not, else
  // null.
  VersionHandle FindById(uint64_t id) const;
  // Hides the version from look-ups by name until resumed. Keeps its handle.
  void Suspend(uint64_t id);
  void Resume(uint64_t id);
  // Removes the version from look-ups. Runs `drained`, which must be short,
  // when the last handle is gone, possibly before Drain returns. An unknown id
  // counts as drained.
  void Drain(uint64_t id, std::function<void()> drained);

  // Returns the newest ready version of a model, or null.
  VersionHandle FindNewest(absl::string_view model) const;
  // Returns the version if it is ready, else null.
  VersionHandle Find(absl::string_view model, uint64_t version) const;
  // Returns ready versions by model name, then by rising version. With an empty
  // `model` those of all models.
  std::vector<VersionHandle> List(absl::string_view model) const;
  // Returns all versions that were added and not drained, ready or not.
  std::vector<VersionHandle> All() const;

 private:
  struct Entry {
    VersionHandle handle;
    bool ready = true;
  };
  using Versions = std::map<uint64_t, Entry>;  // by version number

  Entry* FindEntry(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetReady(uint64_t id, bool ready);

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Versions> models_ ABSL_GUARDED_BY(mutex_);
  // Place in models_ of each version id.
  absl::flat_hash_map<uint64_t, std::pair<std::string, uint64_t>> ids_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
