#include "server/serving/regions/region_book.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

absl::Status CheckLocal(const RegionCaller& caller) {
  if (caller.user.has_value()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      "shared memory is for clients on the server's machine whose user the "
      "system tells; call its loopback address or its socket from there, or "
      "send tensors in the request");
}

absl::Status Unknown(absl::string_view name) {
  return absl::NotFoundError(
      absl::StrCat("Unable to find system shared memory region: '", name,
                   "'; register it first"));
}

}  // namespace

RegionBook::RegionBook(const RegionLimits& limits, std::string folder)
    : limits_(limits), folder_(std::move(folder)) {}

absl::Status RegionBook::CheckRoom(const std::string& tenant,
                                   const RegionSpec& spec) {
  if (regions_.contains({tenant, spec.name})) {
    return absl::AlreadyExistsError(
        absl::StrCat("shared memory region '", spec.name,
                     "' already in manager; unregister it first"));
  }
  std::erase_if(ended_,
                [](const auto& ended) { return ended.second.expired(); });
  if (regions_.size() + ended_.size() >= limits_.regions) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the server has ", limits_.regions,
        " shared memory regions, which is the most; unregister some"));
  }
  size_t count = static_cast<size_t>(
      std::count_if(ended_.begin(), ended_.end(),
                    [&](const auto& ended) { return ended.first == tenant; }));
  uint64_t bytes = 0;
  for (auto it = regions_.lower_bound({tenant, ""});
       it != regions_.end() && it->first.first == tenant; ++it) {
    ++count;
    bytes += it->second->spec().bytes;
  }
  if (count >= limits_.regions_of_tenant) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the tenant has ", count, " shared memory regions, the most are ",
        limits_.regions_of_tenant, "; unregister some"));
  }
  if (spec.bytes > limits_.bytes_of_tenant - bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "shared memory region '", spec.name, "' has ", spec.bytes,
        " bytes, and those of the tenant have ", bytes, " of at most ",
        limits_.bytes_of_tenant, "; unregister some"));
  }
  return absl::OkStatus();
}

absl::Status RegionBook::Register(const RegionCaller& caller,
                                  const RegionSpec& spec) {
  RETURN_IF_ERROR(CheckLocal(caller));
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckRoom(caller.tenant, spec));
  }
  ASSIGN_OR_RETURN(
      Region region,
      SharedRegion::Open(spec, {.folder = folder_, .user = caller.user}));
  absl::MutexLock lock(&mutex_);
  // Another call may have registered one in the meantime.
  RETURN_IF_ERROR(CheckRoom(caller.tenant, spec));
  regions_.emplace(Place{caller.tenant, spec.name}, std::move(region));
  return absl::OkStatus();
}

void RegionBook::Unregister(const std::string& tenant,
                            const std::string& name) {
  std::vector<Region> ended;  // closed outside the lock
  absl::MutexLock lock(&mutex_);
  for (auto it = regions_.lower_bound({tenant, name});
       it != regions_.end() && it->first.first == tenant &&
       (name.empty() || it->first.second == name);) {
    ended_.emplace_back(tenant, it->second);
    ended.push_back(std::move(it->second));
    it = regions_.erase(it);
  }
}

absl::StatusOr<std::vector<RegionSpec>> RegionBook::List(
    const std::string& tenant, const std::string& name) const {
  std::vector<RegionSpec> found;
  absl::MutexLock lock(&mutex_);
  for (auto it = regions_.lower_bound({tenant, name});
       it != regions_.end() && it->first.first == tenant &&
       (name.empty() || it->first.second == name);
       ++it) {
    found.push_back(it->second->spec());
  }
  if (found.empty() && !name.empty()) return Unknown(name);
  return found;
}

absl::StatusOr<std::shared_ptr<const SharedRegion>> RegionBook::Find(
    const RegionCaller& caller, const std::string& name) const {
  RETURN_IF_ERROR(CheckLocal(caller));
  absl::MutexLock lock(&mutex_);
  const auto it = regions_.find({caller.tenant, name});
  if (it == regions_.end()) return Unknown(name);
  return it->second;
}

}  // namespace gpupool::server
