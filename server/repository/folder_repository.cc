#include "server/repository/folder_repository.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "server/serving/ensembles.h"

namespace gpupool::server {
namespace {

// The second look after the start comes sooner than the others.
constexpr absl::Duration kSecondLook = absl::Seconds(1);

absl::Status Stopping() {
  return absl::UnavailableError("the server is shutting down");
}

// Returns a row for a version that is in a folder and not stored.
v1::ModelVersion UnstoredRow(const std::string& model, uint64_t number) {
  v1::ModelVersion row;
  row.set_model(model);
  row.set_version(number);
  row.set_state(v1::UNLOADED);
  row.set_from_repository(true);
  return row;
}

bool Precedes(const v1::ModelVersion& a, const v1::ModelVersion& b) {
  return std::make_tuple(std::cref(a.model()), a.version()) <
         std::make_tuple(std::cref(b.model()), b.version());
}

std::unique_ptr<RepeatModels> MakeRepeats(const RepeatNeeds& needs) {
  if (needs.registry == nullptr) return nullptr;
  return std::make_unique<RepeatModels>(needs);
}

// Adds the rows in place of those with the same model and version.
void PutOver(std::vector<v1::ModelVersion> rows,
             std::vector<v1::ModelVersion>* versions) {
  for (v1::ModelVersion& row : rows) {
    std::erase_if(*versions, [&](const v1::ModelVersion& version) {
      return version.model() == row.model() &&
             version.version() == row.version();
    });
    versions->push_back(std::move(row));
  }
}

// Returns the versions of a folder. Empty ones count if there is a config,
// which may say that the model is an ensemble or one of the back end repeat.
std::vector<uint64_t> NumbersOf(const ModelFolder& model) {
  std::vector<uint64_t> numbers;
  for (const VersionFolder& version : model.versions) {
    numbers.push_back(version.number);
  }
  if (model.config.has_value()) {
    numbers.insert(numbers.end(), model.empty_versions.begin(),
                   model.empty_versions.end());
  }
  return numbers;
}

void LogResult(const ModelFolder& model, const SyncResult& result) {
  for (const std::string& note : result.notes) {
    spdlog::info("model repository: {} model={}", note, model.name);
  }
  if (!result.config.ok()) {
    spdlog::warn("a model of the repository is refused model={} reason=\"{}\"",
                 model.name, std::string(result.config.message()));
  }
  for (const auto& [number, status] : result.versions) {
    if (status.ok()) {
      spdlog::info("a version was read from the repository model={} version={}",
                   model.name, number);
      continue;
    }
    spdlog::warn(
        "a version of the repository is refused model={} version={} "
        "reason=\"{}\"",
        model.name, number, std::string(status.message()));
  }
}

}  // namespace

// Loads of the chosen versions of one model. The last one to end finishes them.
struct FolderRepository::Loads {
  ModelFolder model;
  std::vector<uint64_t> chosen;
  uint64_t generation = 0;
  Done done;
  absl::Mutex mutex;
  size_t remaining ABSL_GUARDED_BY(mutex) = 0;
  absl::Status first ABSL_GUARDED_BY(mutex);
};

FolderRepository::FolderRepository(FolderRepositoryOptions options,
                                   const FolderRepositoryDependencies& needs)
    : options_(std::move(options)),
      needs_(needs),
      repeats_(MakeRepeats(needs.repeat)),
      sync_({.calls = needs.calls,
             .blobs = needs.blobs,
             .file_limit_bytes = options_.file_limit_bytes,
             .stop = &stop_,
             .set_caching = needs.set_caching,
             .replaced = needs.replaced,
             .ensembles = needs.ensembles,
             .repeats = repeats_.get()}) {}

FolderRepository::~FolderRepository() {
  BeginStop();
  Join();
}

void FolderRepository::Start() {
  thread_ = std::thread([this] { Run(); });
}

void FolderRepository::BeginStop() {
  std::deque<Task> refused;
  {
    absl::MutexLock lock(&mutex_);
    // The flag is set under the lock, so that no task is added after the swap.
    stop_.store(true);
    // The callbacks run without the lock, because they may call back.
    refused.swap(tasks_);
  }
  for (const Task& task : refused) task.refuse(Stopping());
}

void FolderRepository::Join() {
  if (thread_.joinable()) thread_.join();
}

// ------------------------------------------------------------- any thread

bool FolderRepository::loaded() {
  if (loaded_.load()) return true;
  {
    absl::MutexLock lock(&mutex_);
    if (!first_pass_done_) return false;
  }
  if (options_.mode != ModelControlMode::kExplicit) {
    const auto versions = needs_.calls->Versions();
    if (!versions.ok()) return false;
    for (const v1::ModelVersion& version : *versions) {
      // A version that waits for room has a text about it.
      if (version.state() == v1::LOADING && version.error().empty()) {
        return false;
      }
    }
  }
  loaded_.store(true);
  return true;
}

absl::StatusOr<std::vector<v1::ModelVersion>> FolderRepository::Versions() {
  ASSIGN_OR_RETURN(std::vector<v1::ModelVersion> versions,
                   needs_.others->Versions());
  if (needs_.ensembles != nullptr) {
    PutOver(needs_.ensembles->Rows(), &versions);
  }
  if (repeats_ != nullptr) PutOver(repeats_->Rows(), &versions);
  std::sort(versions.begin(), versions.end(), Precedes);
  std::vector<v1::ModelVersion> unstored;
  absl::MutexLock lock(&mutex_);
  for (const ModelFolder& model : folders_) {
    for (const uint64_t number : NumbersOf(model)) {
      v1::ModelVersion row = UnstoredRow(model.name, number);
      if (std::binary_search(versions.begin(), versions.end(), row, Precedes)) {
        continue;
      }
      // The number 0 stands for the model's configuration, which concerns all
      // versions.
      auto refusal = refusals_.find({model.name, number});
      if (refusal == refusals_.end()) refusal = refusals_.find({model.name, 0});
      if (refusal != refusals_.end()) {
        row.set_state(v1::LOAD_FAILED);
        row.set_error(refusal->second);
      }
      unstored.push_back(std::move(row));
    }
  }
  versions.insert(versions.end(), unstored.begin(), unstored.end());
  std::sort(versions.begin(), versions.end(), Precedes);
  return versions;
}

void FolderRepository::Load(const std::string& model, Done done) {
  Push({.run = [this, model, done] { BringForLoad(model, done); },
        .refuse = done,
        .is_load = true});
}

void FolderRepository::Unload(const std::string& model, UnloadScope scope,
                              Done done) {
  if (repeats_ != nullptr && repeats_->Has(model)) {
    return repeats_->Remove(model, [done] { done(absl::OkStatus()); });
  }
  if (needs_.ensembles == nullptr || !needs_.ensembles->Has(model)) {
    return needs_.others->Unload(model, scope, std::move(done));
  }
  std::vector<std::string> steps;
  if (scope == UnloadScope::kWithSteps) {
    steps = needs_.ensembles->ModelsOf(model);
  }
  needs_.ensembles->Remove(
      model, [this, steps = std::move(steps), done = std::move(done)] {
        UnloadSteps(steps, done);
      });
}

// Calls that wait for the models of an ensemble's steps. The last one to end
// answers.
struct FolderRepository::StepLoads {
  Done done;
  absl::Mutex mutex;
  size_t remaining ABSL_GUARDED_BY(mutex) = 0;
  absl::Status first ABSL_GUARDED_BY(mutex);

  void Take(const std::string& model, const absl::Status& status) {
    absl::Status all;
    {
      absl::MutexLock lock(&mutex);
      first.Update(absl::Status(
          status.code(),
          absl::StrCat("model '", model, "': ", status.message())));
      if (--remaining > 0) return;
      all = first;
    }
    done(all);
  }
};

void FolderRepository::UnloadSteps(const std::vector<std::string>& models,
                                   Done done) {
  const auto unloads = std::make_shared<StepLoads>();
  unloads->done = std::move(done);
  {
    absl::MutexLock lock(&unloads->mutex);
    unloads->remaining = models.size() + 1;
  }
  for (const std::string& model : models) {
    needs_.others->Unload(
        model, UnloadScope::kModel, [unloads, model](const absl::Status& s) {
          // A step whose model is not stored has nothing to unload.
          unloads->Take(model, absl::IsNotFound(s) ? absl::OkStatus() : s);
        });
  }
  unloads->Take("", absl::OkStatus());
}

void FolderRepository::Push(Task task) {
  absl::Status refused;
  {
    absl::MutexLock lock(&mutex_);
    if (stop_.load()) {
      refused = Stopping();
      // Only loads come from clients. The other tasks follow loads and are
      // bounded by them.
    } else if (task.is_load && waiting_loads_ == kMaxWaitingLoads) {
      refused = absl::ResourceExhaustedError(absl::StrCat(
          "at most ", kMaxWaitingLoads,
          " loads wait for the model repository; try again when one of them "
          "has ended"));
    } else {
      if (task.is_load) ++waiting_loads_;
      tasks_.push_back(std::move(task));
      return;
    }
  }
  task.refuse(refused);
}

// ------------------------------------------------------------- the thread

void FolderRepository::Run() {
  RunFirstPass();
  while (RunTasksUntil(absl::Now() + options_.interval)) OnInterval();
}

void FolderRepository::RunFirstPass() {
  RepositoryLook look = Look();
  history_.Next(look);
  if (options_.mode == ModelControlMode::kPoll) {
    const absl::Duration gap = std::min(options_.interval, kSecondLook);
    if (!RunTasksUntil(absl::Now() + gap)) return;
    look = Look();
  }
  // Without poll one look is enough: a file that is written while it is read
  // is tried again.
  if (options_.mode != ModelControlMode::kExplicit) {
    BringDue(look);
  } else {
    for (const ModelFolder& model : look.models) sync_.ResumeCaching(model);
  }
  absl::MutexLock lock(&mutex_);
  first_pass_done_ = true;
}

bool FolderRepository::RunTasksUntil(absl::Time end) {
  const auto has_work = [this] {
    mutex_.AssertReaderHeld();
    return stop_.load() || !tasks_.empty();
  };
  while (true) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      if (!mutex_.AwaitWithDeadline(absl::Condition(&has_work), end)) {
        return true;
      }
      if (stop_.load()) return false;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      if (task.is_load) --waiting_loads_;
    }
    task.run();
  }
}

void FolderRepository::OnInterval() {
  const bool polls = options_.mode == ModelControlMode::kPoll;
  if (options_.mode == ModelControlMode::kNone && !history_.HasRetries()) {
    return;
  }
  const RepositoryLook look = Look();
  // Versions are loaded only when a client asks. The look still refreshes the
  // list.
  if (options_.mode == ModelControlMode::kExplicit) return;
  if (!polls) history_.Next(look);
  BringDue(look);
}

RepositoryLook FolderRepository::Look() {
  RepositoryLook look = LookAtRepositories(options_.roots);
  for (const std::string& remark : look.remarks) {
    const bool known =
        std::find(remarks_.begin(), remarks_.end(), remark) != remarks_.end();
    if (!known) spdlog::warn("model repository: {}", remark);
  }
  remarks_ = look.remarks;
  absl::MutexLock lock(&mutex_);
  folders_ = look.models;
  return look;
}

void FolderRepository::BringDue(const RepositoryLook& look) {
  for (const ModelFolder& model : history_.Next(look)) {
    if (stop_.load()) return;
    const SyncResult result = Bring(model);
    history_.SetBrought(model, result.MayPass());
    FollowLoads(model, result, [](const absl::Status&) {});
  }
  RemoveGone();
}

void FolderRepository::RemoveGone() {
  const auto stored = needs_.calls->Versions();
  if (!stored.ok()) return;
  std::vector<std::string> names;
  for (const v1::ModelVersion& version : *stored) {
    if (names.empty() || names.back() != version.model()) {
      names.push_back(version.model());
    }
  }
  for (const std::string& name : history_.Gone(names)) {
    // Loads that are still under way for this model then no longer unload
    // others.
    ++generations_[name];
    if (needs_.set_caching) needs_.set_caching(name, false);
    UnloadStored(name);
  }
  if (repeats_ != nullptr) {
    for (const std::string& name : history_.Gone(repeats_->Names())) {
      repeats_->Remove(name, [] {});
    }
  }
  if (needs_.ensembles == nullptr) return;
  for (const std::string& name : history_.Gone(needs_.ensembles->Names())) {
    needs_.ensembles->Remove(name, [] {});
  }
}

void FolderRepository::UnloadStored(const std::string& name) {
  const ModelFolder nothing{.root = "",
                            .name = name,
                            .config = {},
                            .config_error = "",
                            .versions = {},
                            .empty_versions = {},
                            .initial_states = {},
                            .labels = {}};
  const absl::Status unloaded = sync_.UnloadOthers(nothing, {}, true);
  if (unloaded.ok()) return;
  spdlog::warn("a removed model stays loaded model={} reason=\"{}\"", name,
               std::string(unloaded.message()));
}

void FolderRepository::BringForLoad(const std::string& name, const Done& done) {
  const RepositoryLook look = Look();
  const auto model = std::find_if(
      look.models.begin(), look.models.end(),
      [&](const ModelFolder& folder) { return folder.name == name; });
  if (model == look.models.end()) return needs_.others->Load(name, done);
  const SyncResult result = Bring(*model);
  history_.SetBrought(*model, false);
  if (result.config.ok() && result.versions.empty()) {
    return done(absl::NotFoundError(
        absl::StrCat("the folder of model \"", name,
                     "\" has no version that its version policy chooses")));
  }
  if (result.is_ensemble && result.First().ok()) {
    FollowLoads(*model, result, [](const absl::Status&) {});
    return LoadSteps(name, look, done);
  }
  FollowLoads(*model, result, done);
}

// Steps that are in no folder are loaded if they are not served.
void FolderRepository::LoadSteps(const std::string& ensemble,
                                 const RepositoryLook& look, Done done) {
  const auto loads = std::make_shared<StepLoads>();
  loads->done = [ensembles = needs_.ensembles, ensemble,
                 done = std::move(done)](const absl::Status& loaded) {
    const absl::Status served = ensembles->CheckServed(ensemble);
    if (served.ok() || loaded.ok()) return done(served);
    done(absl::UnavailableError(
        absl::StrCat(served.message(), ". ", loaded.message())));
  };
  const std::vector<std::string> steps = needs_.ensembles->ModelsOf(ensemble);
  {
    absl::MutexLock lock(&loads->mutex);
    loads->remaining = steps.size() + 1;
  }
  for (const std::string& step : steps) {
    const auto take = [loads, step](const absl::Status& loaded) {
      loads->Take(step, loaded);
    };
    const auto model = std::find_if(
        look.models.begin(), look.models.end(),
        [&](const ModelFolder& folder) { return folder.name == step; });
    if (model == look.models.end()) {
      needs_.others->Load(step, take);
      continue;
    }
    const SyncResult result = Bring(*model);
    history_.SetBrought(*model, false);
    FollowLoads(*model, result, take);
  }
  loads->Take("", absl::OkStatus());
}

SyncResult FolderRepository::Bring(const ModelFolder& model) {
  SyncResult result = sync_.Bring(model);
  LogResult(model, result);
  Record(model, result);
  return result;
}

// Keeps the errors for Versions.
void FolderRepository::Record(const ModelFolder& model,
                              const SyncResult& result) {
  absl::MutexLock lock(&mutex_);
  std::erase_if(refusals_, [&](const auto& entry) {
    return entry.first.first == model.name;
  });
  if (!result.config.ok()) {
    refusals_[{model.name, 0}] = std::string(result.config.message());
  }
  for (const auto& [number, status] : result.versions) {
    if (status.ok()) continue;
    refusals_[{model.name, number}] = std::string(status.message());
  }
}

void FolderRepository::FollowLoads(const ModelFolder& model,
                                   const SyncResult& result, Done done) {
  if (!result.config.ok()) return done(result.config);
  if (result.is_ensemble || result.is_repeat) {
    // It is served at once, or when its steps are: there is no load to follow.
    ++generations_[model.name];
    UnloadStored(model.name);
    return done(result.First());
  }
  const auto loads = std::make_shared<Loads>();
  loads->model = model;
  loads->generation = ++generations_[model.name];
  loads->done = std::move(done);
  std::vector<uint64_t> loading;
  for (const auto& [number, status] : result.versions) {
    loads->chosen.push_back(number);
    if (status.ok()) loading.push_back(number);
  }
  {
    absl::MutexLock lock(&loads->mutex);
    loads->first = result.First();
    loads->remaining = loading.size();
  }
  if (loading.empty()) return FinishLoads(loads);
  const auto take = [this, loads](const absl::Status& loaded) {
    {
      absl::MutexLock lock(&loads->mutex);
      loads->first.Update(loaded);
      if (--loads->remaining > 0) return;
    }
    // The callback may come on any thread. FinishLoads belongs to the
    // repository's own.
    Push({.run = [this, loads] { FinishLoads(loads); }, .refuse = loads->done});
  };
  for (const uint64_t number : loading) {
    needs_.calls->WhenLoaded(model.name, number, take);
  }
}

void FolderRepository::FinishLoads(const std::shared_ptr<Loads>& loads) {
  absl::Status first;
  {
    absl::MutexLock lock(&loads->mutex);
    first = loads->first;
  }
  // If the model was brought again meanwhile, that decides about the others.
  if (generations_[loads->model.name] == loads->generation) {
    const absl::Status unloaded =
        sync_.UnloadOthers(loads->model, loads->chosen, first.ok());
    if (!unloaded.ok()) {
      spdlog::warn("an older version stays loaded model={} reason=\"{}\"",
                   loads->model.name, std::string(unloaded.message()));
    }
  }
  loads->done(first);
}

}  // namespace gpupool::server
