#include "server/serving/ensembles.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

using StateAndReason = std::pair<v1::VersionState, std::string>;

// Returns the state of the version, or the best one of the versions if the
// step takes any.
StateAndReason StateOf(const v1::Model& model, uint64_t version) {
  StateAndReason found = {v1::LOAD_FAILED,
                          absl::StrCat("there is no version ", version)};
  if (version == 0) found.second = "it has no version";
  for (const v1::ModelVersion& row : model.versions()) {
    if (version != 0 && row.version() != version) continue;
    if (row.state() == v1::READY || row.state() == v1::LOADING) {
      return {v1::LOADING, "it is being loaded"};
    }
    if (found.first == v1::UNLOADED) continue;
    if (row.state() == v1::LOAD_FAILED) {
      found.second = absl::StrCat("its version ", row.version(),
                                  " failed to load: ", row.error());
    } else {
      found = {v1::UNLOADED, "it is not loaded"};
    }
  }
  return found;
}

}  // namespace

Ensembles::Ensembles(ModelRegistry* registry, Router::Catalogue stored,
                     ServingObserver* observer)
    : registry_(registry), stored_(std::move(stored)), observer_(observer) {}

absl::Status Ensembles::Define(const EnsembleSpec& spec) {
  ASSIGN_OR_RETURN(EnsembleGraph graph, MakeEnsembleGraph(spec));
  Handles released;
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[spec.model];
  if (entry.spec == nullptr || *entry.spec != spec) {
    Hide(entry, &released);
    entry.spec = std::make_shared<const EnsembleSpec>(spec);
    entry.graph = std::make_shared<const EnsembleGraph>(std::move(graph));
    entry.id = next_id_++;
  }
  entry.name_taken = TakenNames(&released).contains(spec.model);
  RefreshEntry(entry, &released);
  return absl::OkStatus();
}

void Ensembles::Remove(absl::string_view model, std::function<void()> drained) {
  Handles released;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(model);
    if (found != entries_.end()) {
      Entry& entry = found->second;
      // Two handles are left, so the callback does not run here.
      if (entry.served != nullptr) {
        released.push_back(entry.served);
        registry_->Drain(entry.id, std::move(drained));
        drained = nullptr;
      }
      released.push_back(std::move(entry.served));
      entries_.erase(found);
    }
  }
  if (drained) drained();
}

std::set<std::string> Ensembles::TakenNames(Handles* released) const {
  std::set<std::string> names;
  for (VersionHandle& version : registry_->All()) {
    if (version->ensemble() == nullptr) names.insert(version->facts().model);
    released->push_back(std::move(version));
  }
  return names;
}

void Ensembles::Refresh() {
  Handles released;
  absl::MutexLock lock(&mutex_);
  if (entries_.empty()) return;
  const std::set<std::string> taken = TakenNames(&released);
  for (auto& [name, entry] : entries_) {
    entry.name_taken = taken.contains(name);
    RefreshEntry(entry, &released);
  }
}

void Ensembles::MakeRoomFor(absl::string_view model) {
  Handles released;
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(model);
  if (found == entries_.end()) return;
  found->second.name_taken = true;
  Hide(found->second, &released);
}

// Takes ready versions. If there is none, a version stays that is loaded again
// after the loss of its worker.
Ensembles::Found Ensembles::FindSteps(const Entry& entry,
                                      Handles* released) const {
  Found found;
  for (size_t i = 0; i < entry.spec->steps.size(); ++i) {
    const EnsembleStep& step = entry.spec->steps[i];
    VersionHandle version = step.version == 0
                                ? registry_->FindNewest(step.model)
                                : registry_->Find(step.model, step.version);
    if (version == nullptr && entry.binding != nullptr) {
      const VersionHandle bound = entry.binding->steps[i].version.lock();
      released->push_back(bound);
      if (bound != nullptr) version = registry_->FindById(bound->facts().id);
      found.all_ready = false;
    }
    found.complete = found.complete && version != nullptr;
    released->push_back(version);
    found.versions.push_back(std::move(version));
  }
  return found;
}

void Ensembles::RefreshEntry(Entry& entry, Handles* released) {
  const Found found = FindSteps(entry, released);
  entry.refused = absl::OkStatus();
  if (!found.complete || entry.name_taken) return Hide(entry, released);
  absl::StatusOr<EnsembleBinding> binding =
      BindEnsemble(*entry.spec, entry.graph, found.versions);
  if (!binding.ok()) {
    entry.refused = binding.status();
    return Hide(entry, released);
  }
  Serve(entry, *std::move(binding), released);
  if (found.all_ready) {
    registry_->Resume(entry.id);
  } else {
    // Requests wait for the worker, as those for the step's model do.
    registry_->Suspend(entry.id);
  }
}

// Keeps the version and its statistics if the formats are the same.
void Ensembles::Serve(Entry& entry, EnsembleBinding binding,
                      Handles* released) {
  if (entry.served != nullptr &&
      TakeTheSame(entry.binding->facts, binding.facts)) {
    entry.binding = std::make_shared<const EnsembleBinding>(std::move(binding));
    entry.executor->SetBinding(entry.binding);
    return;
  }
  if (entry.served != nullptr) {
    Hide(entry, released);
    entry.id = next_id_++;
  }
  binding.facts.id = entry.id;
  entry.binding = std::make_shared<const EnsembleBinding>(std::move(binding));
  const VersionFacts& facts = entry.binding->facts;
  std::unique_ptr<VersionObserver> observer;
  if (observer_ != nullptr) {
    observer =
        observer_->Observe(facts.model, facts.version, facts.max_queue_size);
  }
  entry.executor =
      std::make_shared<EnsembleExecutor>(entry.binding, std::move(observer));
  entry.served =
      std::make_shared<ServedVersion>(facts, entry.executor, entry.spec);
  registry_->Add(entry.served);
  spdlog::info("ensemble ready model={} version={}", facts.model,
               facts.version);
}

void Ensembles::Hide(Entry& entry, Handles* released) {
  if (entry.served == nullptr) return;
  spdlog::info("ensemble hidden model={} version={}", entry.spec->model,
               entry.spec->version);
  registry_->Drain(entry.id, [] {});
  released->push_back(std::move(entry.served));
  entry.served = nullptr;
  entry.executor = nullptr;
  entry.binding = nullptr;
}

// ------------------------------------------------------------------- rows

Ensembles::Draft Ensembles::DraftOf(const Entry& entry) {
  Draft draft;
  v1::ModelVersion& row = draft.row;
  row.set_model(entry.spec->model);
  row.set_version(entry.spec->version);
  row.set_id(entry.id);
  row.set_from_repository(true);
  if (entry.served != nullptr) {
    row.set_state(v1::READY);
  } else if (entry.name_taken) {
    row.set_state(v1::LOAD_FAILED);
    row.set_error("another model of this name is loaded; rename the ensemble");
  } else if (!entry.refused.ok()) {
    row.set_state(v1::LOAD_FAILED);
    row.set_error(std::string(entry.refused.message()));
  } else {
    draft.unexplained = entry.spec;
  }
  return draft;
}

StateAndReason Ensembles::StateOfStep(const EnsembleStep& step) const {
  const VersionHandle ready = step.version == 0
                                  ? registry_->FindNewest(step.model)
                                  : registry_->Find(step.model, step.version);
  if (ready != nullptr && ready->ensemble() == nullptr) return {v1::READY, ""};
  {
    absl::MutexLock lock(&mutex_);
    if (entries_.contains(step.model)) {
      return {v1::LOAD_FAILED,
              "it is an ensemble itself; write its steps in its place"};
    }
  }
  const absl::StatusOr<v1::Model> model = stored_(step.model);
  if (absl::IsNotFound(model.status())) {
    return {v1::LOAD_FAILED, "there is no model of this name"};
  }
  if (!model.ok()) return {v1::LOADING, std::string(model.status().message())};
  return StateOf(*model, step.version);
}

// Without the lock, since it asks the store. A step that is being loaded is
// named only if no other one needs somebody's help.
v1::ModelVersion Ensembles::Finish(Draft draft) const {
  if (draft.unexplained == nullptr) return std::move(draft.row);
  draft.row.set_state(v1::LOADING);
  const EnsembleSpec& spec = *draft.unexplained;
  for (size_t i = 0; i < spec.steps.size(); ++i) {
    const auto [state, reason] = StateOfStep(spec.steps[i]);
    if (state == v1::READY) continue;
    draft.row.set_state(state);
    draft.row.set_error(absl::StrCat(StepText(spec, i), ": ", reason));
    if (state != v1::LOADING) break;
  }
  return std::move(draft.row);
}

bool Ensembles::Has(absl::string_view model) const {
  absl::MutexLock lock(&mutex_);
  return entries_.contains(model);
}

std::vector<std::string> Ensembles::Names() const {
  std::vector<std::string> names;
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

std::vector<v1::ModelVersion> Ensembles::Rows() const {
  std::vector<Draft> drafts;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, entry] : entries_) drafts.push_back(DraftOf(entry));
  }
  std::vector<v1::ModelVersion> rows;
  for (Draft& draft : drafts) rows.push_back(Finish(std::move(draft)));
  return rows;
}

absl::StatusOr<v1::Model> Ensembles::FindModel(absl::string_view model) const {
  absl::StatusOr<v1::Model> found = stored_(model);
  Draft draft;
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = entries_.find(model);
    if (entry == entries_.end()) return found;
    draft = DraftOf(entry->second);
  }
  if (absl::IsNotFound(found.status())) {
    found = v1::Model();
    found->set_name(std::string(model));
  }
  RETURN_IF_ERROR(found.status());
  *found->add_versions() = Finish(std::move(draft));
  return found;
}

absl::Status Ensembles::CheckServed(absl::string_view model) const {
  Draft draft;
  {
    absl::MutexLock lock(&mutex_);
    const auto entry = entries_.find(model);
    if (entry == entries_.end()) {
      return absl::NotFoundError(
          absl::StrCat("'", model, "' is no ensemble of the server"));
    }
    if (entry->second.served != nullptr) return absl::OkStatus();
    draft = DraftOf(entry->second);
  }
  return absl::UnavailableError(Finish(std::move(draft)).error());
}

std::vector<std::string> Ensembles::ModelsOf(absl::string_view model) const {
  std::set<std::string> models;
  absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(model);
  if (entry == entries_.end()) return {};
  for (const EnsembleStep& step : entry->second.spec->steps) {
    models.insert(step.model);
  }
  return {models.begin(), models.end()};
}

}  // namespace gpupool::server
