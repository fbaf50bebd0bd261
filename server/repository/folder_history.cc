#include "server/repository/folder_history.h"

#include <algorithm>
#include <utility>

namespace gpupool::server {

std::vector<ModelFolder> FolderHistory::Next(const RepositoryLook& look) {
  before_ = std::move(last_);
  last_.clear();
  for (const ModelFolder& model : look.models) last_[model.name] = model;
  const bool misses = !look.missing_roots.empty();
  missed_root_ = misses || last_missed_root_;
  last_missed_root_ = misses;
  // A model that comes back is brought again.
  std::erase_if(brought_, [&](const auto& entry) {
    return !missed_root_ && !last_.contains(entry.first) &&
           !before_.contains(entry.first);
  });
  std::vector<ModelFolder> due;
  for (const auto& [name, model] : last_) {
    const auto before = before_.find(name);
    if (before == before_.end() || before->second != model) continue;
    const auto brought = brought_.find(name);
    if (brought == brought_.end() || brought->second.model != model ||
        brought->second.failed_tries > 0) {
      due.push_back(model);
    }
  }
  return due;
}

std::vector<std::string> FolderHistory::Gone(
    const std::vector<std::string>& names) const {
  std::vector<std::string> gone;
  if (missed_root_) return gone;
  for (const std::string& name : names) {
    if (last_.contains(name) || before_.contains(name)) continue;
    gone.push_back(name);
  }
  return gone;
}

void FolderHistory::SetBrought(const ModelFolder& model, bool try_again) {
  Brought& brought = brought_[model.name];
  const int before = brought.model == model ? brought.failed_tries : 0;
  const bool again = try_again && before + 1 < kMaxTries;
  brought = {.model = model, .failed_tries = again ? before + 1 : 0};
}

bool FolderHistory::HasRetries() const {
  return std::any_of(brought_.begin(), brought_.end(), [](const auto& entry) {
    return entry.second.failed_tries > 0;
  });
}

}  // namespace gpupool::server
