#include "server/repository/replaced_versions.h"

#include <algorithm>

#include "absl/status/status.h"

namespace gpupool::server {
namespace {

// Makes the version LOADING unless it is that or READY.
void SetComing(uint64_t number, v1::Model& model) {
  auto& versions = *model.mutable_versions();
  const auto found = std::find_if(
      versions.begin(), versions.end(),
      [number](const auto& version) { return version.version() == number; });
  v1::ModelVersion& version =
      found == versions.end() ? *model.add_versions() : *found;
  if (version.state() == v1::LOADING || version.state() == v1::READY) return;
  version.set_version(number);
  version.set_state(v1::LOADING);
  // The new version has another id, which is not known yet.
  version.clear_id();
}

}  // namespace

ReplacedVersions::Mark::Mark(ReplacedVersions* versions, std::string model,
                             uint64_t number)
    : versions_(versions), key_(std::move(model), number) {
  if (versions_ == nullptr) return;
  absl::MutexLock lock(&versions_->mutex_);
  versions_->marked_.insert(key_);
}

ReplacedVersions::Mark::~Mark() {
  if (versions_ == nullptr) return;
  absl::MutexLock lock(&versions_->mutex_);
  versions_->marked_.erase(versions_->marked_.find(key_));
}

std::set<uint64_t> ReplacedVersions::Of(absl::string_view model) const {
  absl::MutexLock lock(&mutex_);
  std::set<uint64_t> numbers;
  for (const auto& [name, number] : marked_) {
    if (name == model) numbers.insert(number);
  }
  return numbers;
}

absl::StatusOr<v1::Model> ReplacedVersions::WithReplaced(
    absl::string_view model, const FindModel& find) const {
  // Comes before the look into the store, which has the new version before its
  // mark goes.
  const std::set<uint64_t> numbers = Of(model);
  absl::StatusOr<v1::Model> found = find(model);
  if (numbers.empty()) return found;
  if (absl::IsNotFound(found.status())) {
    found.emplace();
    found->set_name(std::string(model));
  }
  if (!found.ok()) return found;
  for (const uint64_t number : numbers) SetComing(number, *found);
  return found;
}

}  // namespace gpupool::server
