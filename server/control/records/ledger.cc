#include "server/control/records/ledger.h"

#include <string>
#include <vector>

#include "server/control/records/taken_names.h"

namespace gpupool::server {
namespace {

// Returns the names of the datasets that the job reads.
std::vector<std::string> DatasetsOf(const v1::Job& job) {
  const v1::DataSpec& data = job.spec().data();
  std::vector<std::string> names;
  if (!data.has_synthetic()) names.push_back(data.dataset());
  if (!data.validation().empty()) names.push_back(data.validation());
  return names;
}

}  // namespace

JobRow& Ledger::AddJob(v1::Job job) {
  const uint64_t id = job.id();
  if (job.array_id() == 0) {  // a task's array has it instead
    requests_[{job.spec().tenant(), job.request_id()}] = id;
  }
  for (const std::string& name : DatasetsOf(job)) {
    dataset_users_[name][id] = true;
  }
  JobRow& row = jobs[id];
  row.job = std::move(job);
  return row;
}

JobRow* Ledger::FindJob(uint64_t id) {
  auto it = jobs.find(id);
  return it == jobs.end() ? nullptr : &it->second;
}

// Removes the row from all indexes, in the reverse of AddJob.
void Ledger::RemoveJob(uint64_t id) {
  auto it = jobs.find(id);
  if (it == jobs.end()) return;
  const v1::Job& job = it->second.job;
  if (job.array_id() == 0) {
    requests_.erase({job.spec().tenant(), job.request_id()});
  }
  for (const std::string& name : DatasetsOf(job)) {
    auto users = dataset_users_.find(name);
    if (users == dataset_users_.end()) continue;
    users->second.erase(id);
    if (users->second.empty()) dataset_users_.erase(users);
  }
  jobs.erase(it);
}

JobRow* Ledger::FindRequest(const std::string& tenant,
                            const std::string& request_id) {
  auto it = requests_.find(Request{tenant, request_id});
  return it == requests_.end() ? nullptr : FindJob(it->second);
}

uint64_t Ledger::UserOfDataset(const std::string& dataset) const {
  auto it = dataset_users_.find(dataset);
  return it == dataset_users_.end() ? 0 : it->second.begin()->first;
}

v1::ModelVersion& Ledger::AddVersion(v1::ModelVersion version) {
  const uint64_t id = version.id();
  models_[version.model()][version.version()] = id;
  return versions_[id] = std::move(version);
}

v1::ModelVersion* Ledger::FindVersion(uint64_t id) {
  auto it = versions_.find(id);
  return it == versions_.end() ? nullptr : &it->second;
}

v1::ModelVersion* Ledger::FindVersion(const std::string& model,
                                      uint64_t number) {
  auto entry = models_.find(model);
  if (entry == models_.end()) return nullptr;
  const auto& numbers = entry->second;
  // 0 asks for the newest version. A model without versions has no entry, so
  // `numbers` is not empty.
  auto it = number == 0 ? std::prev(numbers.end()) : numbers.find(number);
  return it == numbers.end() ? nullptr : FindVersion(it->second);
}

void Ledger::RemoveVersion(uint64_t id) {
  v1::ModelVersion* version = FindVersion(id);
  if (version == nullptr) return;
  auto model = models_.find(version->model());
  model->second.erase(version->version());
  // FindVersion relies on this.
  if (model->second.empty()) models_.erase(model);
  versions_.erase(id);
}

bool Ledger::HasModel(const std::string& model) const {
  return models_.contains(model);
}

std::vector<uint64_t> Ledger::VersionsOf(const std::string& model) const {
  std::vector<uint64_t> ids;
  auto entry = models_.find(model);
  if (entry == models_.end()) return ids;
  for (const auto& [number, id] : entry->second) ids.push_back(id);
  return ids;
}

absl::Status Ledger::SettleTenant(v1::ModelVersion* version) {
  if (!keeps_tenants_apart) version->clear_tenant();
  const v1::ModelVersion* const present = FindVersion(version->model(), 0);
  if (present == nullptr) return absl::OkStatus();
  if (!present->tenant().empty() && !version->tenant().empty() &&
      present->tenant() != version->tenant()) {
    return ModelNameTaken(version->model());
  }
  version->set_tenant(present->tenant());
  version->set_shared(present->shared());
  return absl::OkStatus();
}

bool Ledger::IsPublished(uint64_t job, uint64_t step) const {
  for (const auto& [id, version] : versions_) {
    if (version.job_id() == job && version.step() == step) return true;
  }
  return false;
}

}  // namespace gpupool::server
