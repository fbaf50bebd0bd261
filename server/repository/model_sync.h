// Brings the versions of one model from its folder to the server: reads
// config.pbtxt, uploads what is not stored yet, and asks to load what the
// version policy chooses. Defines ensembles and models of the back end repeat.
//
// Thread-safety: one thread at a time. Ownership: what the options name must
// outlive it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "inference/model_config.pb.h"
#include "server/repository/folder_scan.h"
#include "server/repository/replaced_versions.h"
#include "server/repository/version_calls.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

class Ensembles;
class RepeatModels;

// Sets whether answers of all versions of the model are kept. Any thread.
using SetCaching = std::function<void(const std::string& model, bool on)>;

struct ModelSyncOptions {
  VersionCalls* calls = nullptr;
  const BlobStore* blobs = nullptr;
  uint64_t file_limit_bytes = 0;
  const std::atomic<bool>* stop = nullptr;
  SetCaching set_caching = {};  // empty: the server has no response cache
  ReplacedVersions* replaced = nullptr;  // null: nobody asks
  Ensembles* ensembles = nullptr;        // null: ensembles are refused
  RepeatModels* repeats = nullptr;       // null: the back end is refused
};

struct SyncResult {
  // Error of config.pbtxt. Nothing of the model was changed then.
  absl::Status config;
  // Outcome for each chosen version: OK when it is stored and its load was
  // asked for.
  std::map<uint64_t, absl::Status> versions;
  std::vector<std::string> notes;  // for the log
  // Whether the model is an ensemble. OK in `versions` then means that it is
  // defined. It is served when its steps are.
  bool is_ensemble = false;
  // Whether the model is one of the back end repeat. OK in `versions` then
  // means that it is served.
  bool is_repeat = false;

  // Returns the first error.
  absl::Status First() const;
  // Returns true when an error may pass, so that it should be tried again.
  bool MayPass() const;
};

class ModelSync {
 public:
  explicit ModelSync(const ModelSyncOptions& options) : options_(options) {}

  // Brings the chosen versions. A version that is stored with the same files
  // and options is not uploaded again. An error of one version hurts no other.
  SyncResult Bring(const ModelFolder& model);

  // Keeps answers of the model if its config says so. For versions that were
  // loaded before the server started, and are not brought again.
  void ResumeCaching(const ModelFolder& model);

  // Unloads the model's versions that are served and are neither chosen nor in
  // the folder. The folder's other versions are unloaded only if `chosen` is
  // what serves the model now: pass `all_served` then. Never touches versions
  // that did not come from a repository.
  absl::Status UnloadOthers(const ModelFolder& model,
                            const std::vector<uint64_t>& chosen,
                            bool all_served);

 private:
  struct Wish;

  absl::StatusOr<Wish> ReadWish(const ModelFolder& model);
  void BringVersions(const ModelFolder& model, const Wish& wish,
                     SyncResult* result);
  void BringEnsemble(const ModelFolder& model,
                     const inference::ModelConfig& config, SyncResult* result);
  void BringRepeat(const ModelFolder& model,
                   const inference::ModelConfig& config, SyncResult* result);
  absl::Status BringVersion(const ModelFolder& model,
                            const VersionFolder& version, const Wish& wish);
  absl::Status LoadStored(const v1::ModelVersion& row, const Wish& wish);

  const ModelSyncOptions options_;
};

}  // namespace gpupool::server
