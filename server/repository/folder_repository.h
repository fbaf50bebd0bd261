// Serves the models of folders (--model-repository). One thread looks at the
// folders, brings models to the server and follows their loads.
//
//   none       brings everything once, at the start
//   poll       looks again and again, and takes what was added, changed or
//              removed
//   explicit   brings a model when Load is called for it
//
// An error of one model is logged, is listed by Versions, and hurts no other.
// Models that are in no folder go to another ModelRepository.
//
// Thread-safety: any thread. Ownership: borrows what the dependencies name,
// which must outlive this object. Callbacks of the calls may come until control
// has stopped; destroy this object after that.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/api/inference/model_repository.h"
#include "server/repository/folder_history.h"
#include "server/repository/folder_scan.h"
#include "server/repository/model_sync.h"
#include "server/repository/version_calls.h"
#include "server/serving/decoupled/repeat_models.h"

namespace gpupool::server {

class Ensembles;

enum class ModelControlMode { kNone, kPoll, kExplicit };

struct FolderRepositoryOptions {
  std::vector<std::string> roots;
  ModelControlMode mode = ModelControlMode::kNone;
  absl::Duration interval;  // between looks
  uint64_t file_limit_bytes = 0;
};

struct FolderRepositoryDependencies {
  VersionCalls* calls = nullptr;
  const BlobStore* blobs = nullptr;
  ModelRepository* others = nullptr;
  SetCaching set_caching = {};           // see ModelSyncOptions
  ReplacedVersions* replaced = nullptr;  // see ModelSyncOptions
  Ensembles* ensembles = nullptr;        // see ModelSyncOptions
  // Parts of serving that outlive this object. Without a registry, models of
  // the back end repeat are refused.
  RepeatNeeds repeat = {};
};

class FolderRepository : public ModelRepository {
 public:
  // Maximum number of calls of Load that wait.
  static constexpr size_t kMaxWaitingLoads = 1024;

  FolderRepository(FolderRepositoryOptions options,
                   const FolderRepositoryDependencies& needs);
  ~FolderRepository() override;  // Stops and joins.

  // Starts the thread. Call once.
  void Start();
  // Refuses calls from now on, and answers those that wait. Idempotent.
  void BeginStop();
  // Waits for the thread, which may wait for control until that has stopped.
  void Join();

  // Returns true when the models that are loaded at the start are ready, have
  // failed, or wait for room on a device.
  bool loaded();

  // Returns the stored versions, the ensembles, and the versions in folders
  // that are neither.
  absl::StatusOr<std::vector<v1::ModelVersion>> Versions() override;
  // Reads the model's folder and loads what its version policy chooses; for an
  // ensemble, also the models of its steps. Errors are those of the files, or
  //   NotFound            the folder has no version to load
  //   ResourceExhausted   too many loads wait
  //   Unavailable         a version failed to load, or the server stops
  void Load(const std::string& model, Done done) override;
  // Unloads versions as the other repository does, or forgets an ensemble or a
  // model of the back end repeat.
  void Unload(const std::string& model, UnloadScope scope, Done done) override;

 private:
  // Work for the thread. Exactly one of the two functions is called.
  struct Task {
    std::function<void()> run;
    Done refuse;
    bool is_load = false;
  };
  struct Loads;
  struct StepLoads;

  void Run();
  void RunFirstPass();
  // Runs tasks until then. Returns false when the thread must end.
  bool RunTasksUntil(absl::Time end);
  void OnInterval();
  RepositoryLook Look();
  void BringDue(const RepositoryLook& look);
  void RemoveGone();
  void BringForLoad(const std::string& name, const Done& done);
  // Loads the models of an ensemble's steps.
  void LoadSteps(const std::string& ensemble, const RepositoryLook& look,
                 Done done);
  void UnloadSteps(const std::vector<std::string>& models, Done done);
  SyncResult Bring(const ModelFolder& model);
  void Record(const ModelFolder& model, const SyncResult& result);
  void FollowLoads(const ModelFolder& model, const SyncResult& result,
                   Done done);
  void FinishLoads(const std::shared_ptr<Loads>& loads);
  // Unloads the versions that the folder's model has left in the store.
  void UnloadStored(const std::string& name);
  void Push(Task task);

  const FolderRepositoryOptions options_;
  const FolderRepositoryDependencies needs_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> loaded_{false};
  const std::unique_ptr<RepeatModels> repeats_;  // null: refused
  ModelSync sync_;
  // The thread alone uses the members up to the mutex.
  FolderHistory history_;
  std::vector<std::string> remarks_;             // of the last look
  std::map<std::string, uint64_t> generations_;  // of each model's loads

  absl::Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_loads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool first_pass_done_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<ModelFolder> folders_ ABSL_GUARDED_BY(mutex_);  // last look
  // Reasons why versions were refused, by model and version; 0: config.pbtxt.
  std::map<std::pair<std::string, uint64_t>, std::string> refusals_
      ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace gpupool::server
