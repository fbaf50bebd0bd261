// The model versions that are served now. A handle pins a version: while one
// is held the version's worker keeps it loaded. Which version a name means
// changes between two look-ups at once, never within one request.
//
// Thread-safety: any thread. Ownership: the registry holds one handle per
// version that was added and not drained.
#pragma once

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
#include "server/serving/tensor_view.h"

namespace gpupool::server {

// What is fixed about a version, with defaults filled in.
struct VersionFacts {
  uint64_t id = 0;  // server-wide
  std::string model;
  uint64_t version = 0;
  std::string label;  // for messages: "'digits' version 1"
  std::vector<TensorFormat> inputs;
  std::vector<TensorFormat> outputs;
  std::vector<SizedDimension> dimensions;  // of several sizes, by name
  bool batched = true;  // whether the tensors have a batch dimension
  uint32_t max_batch_size = 0;
  absl::Duration max_queue_delay;
  uint32_t max_queue_size = 0;
  uint64_t bytes = 0;  // planned peak of its program on the device
};

// InvalidArgument when the plan's inputs and outputs cannot be served: none or
// too many, some with a batch and some without, or see MakeTensorFormat.
absl::StatusOr<VersionFacts> MakeVersionFacts(const v1::ModelVersion& version);

class ServedVersion {
 public:
  ServedVersion(VersionFacts facts, std::shared_ptr<Batcher> batcher);
  // Runs what OnLastHandleGone was given, on the thread that let go last.
  ~ServedVersion();

  const VersionFacts& facts() const { return facts_; }
  Batcher& batcher() const { return *batcher_; }
  // Where it is loaded, "cpu:0"; the last place while its worker is lost.
  std::string device() const;
  void set_device(std::string device);
  void OnLastHandleGone(std::function<void()> callback);

 private:
  const VersionFacts facts_;
  const std::shared_ptr<Batcher> batcher_;
  mutable absl::Mutex mutex_;
  std::string device_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> last_handle_gone_ ABSL_GUARDED_BY(mutex_);
};

using VersionHandle = std::shared_ptr<ServedVersion>;

class ModelRegistry {
 public:
  // The version is found from now on. One with the same id that was suspended
  // must be resumed instead.
  void Add(VersionHandle version);
  // The handle of a version that was added and not drained, ready or not;
  // null when there is none.
  VersionHandle FindById(uint64_t id) const;
  // Not found by name until resumed; its handle is kept.
  void Suspend(uint64_t id);
  void Resume(uint64_t id);
  // Not found any more; `drained` runs when the last handle is gone, perhaps
  // before Drain returns. It must be short. An unknown id is drained already.
  void Drain(uint64_t id, std::function<void()> drained);

  // The newest ready version of a model; null when there is none.
  VersionHandle FindNewest(absl::string_view model) const;
  // Null unless that version is ready.
  VersionHandle Find(absl::string_view model, uint64_t version) const;
  // Ready versions by model name, then rising version; `model` empty: of all.
  std::vector<VersionHandle> List(absl::string_view model) const;
  // All that were added and not drained, ready or not.
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
  // Version id -> where it is in models_.
  absl::flat_hash_map<uint64_t, std::pair<std::string, uint64_t>> ids_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
