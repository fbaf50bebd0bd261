#include "server/control/models/version_waiters.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gpupool/v1/model.pb.h"
#include "server/control/records/ledger.h"

namespace gpupool::server {
namespace {

bool HasArrived(VersionWaiters::For what, const v1::ModelVersion& version) {
  if (what == VersionWaiters::For::kUnloaded) {
    // A load that was asked for meanwhile begins as soon as it is unloaded.
    return version.state() != v1::UNLOADING;
  }
  switch (version.state()) {
    case v1::READY:
    case v1::LOAD_FAILED:
    case v1::UNLOADED:
      return true;
    default:
      return false;
  }
}

}  // namespace

void VersionWaiters::Add(For what, std::vector<uint64_t> ids,
                         VersionCallback callback) {
  waiters_.push_back({what, std::move(ids), std::move(callback)});
}

bool VersionWaiters::Arrived(Ledger& ledger, const Waiter& waiter) {
  return std::all_of(waiter.ids.begin(), waiter.ids.end(), [&](uint64_t id) {
    const v1::ModelVersion* version = ledger.FindVersion(id);
    return version == nullptr || HasArrived(waiter.what, *version);
  });
}

void VersionWaiters::Check(Ledger& ledger,
                           const absl::btree_set<uint64_t>& changed) {
  if (changed.empty()) return;
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    const bool concerned =
        std::any_of(it->ids.begin(), it->ids.end(),
                    [&](uint64_t id) { return changed.contains(id); });
    if (!concerned || !Arrived(ledger, *it)) {
      ++it;
      continue;
    }
    // Removed before the call, which may add waiters.
    const Waiter waiter = std::move(*it);
    it = waiters_.erase(it);
    const v1::ModelVersion* version = ledger.FindVersion(waiter.ids.back());
    if (version == nullptr) {
      waiter.callback(
          absl::NotFoundError("the version was deleted during the wait"));
    } else {
      waiter.callback(*version);
    }
  }
}

void VersionWaiters::FailAll(const absl::Status& status) {
  std::list<Waiter> waiters = std::move(waiters_);
  waiters_.clear();
  for (const Waiter& waiter : waiters) waiter.callback(status);
}

}  // namespace gpupool::server
