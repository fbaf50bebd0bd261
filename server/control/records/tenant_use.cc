#include "server/control/records/tenant_use.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "scheduler/state/state.h"
#include "server/control/records/ledger.h"

namespace gpupool::server {
namespace {

// Returns whether the tenant is the one at the end of the path, or a part of
// it.
bool IsWithin(absl::string_view tenant, absl::string_view path) {
  return absl::ConsumePrefix(&tenant, path) &&
         (tenant.empty() || tenant.front() == '.');
}

}  // namespace

uint64_t BytesOf(const v1::Dataset& dataset) {
  uint64_t bytes = 0;
  for (const v1::DatasetFile& file : dataset.files()) {
    bytes += std::min(file.total_bytes(), ~uint64_t{0} - bytes);
  }
  return bytes;
}

bool IsLoaded(const v1::ModelVersion& version) {
  return version.state() == v1::LOADING || version.state() == v1::READY;
}

template <typename Change>
void TenantUses::Count(absl::string_view tenant, Change change) {
  if (tenant.empty()) return;
  for (const absl::string_view path : scheduler::PathOf(tenant)) {
    change(uses_[std::string(path)]);
  }
}

void TenantUses::Add(const v1::Dataset& dataset) {
  AddBytes(dataset.tenant(), BytesOf(dataset));
}

void TenantUses::Add(const v1::ModelVersion& version) {
  Count(version.tenant(), [&](TenantUse& use) {
    use.models += IsLoaded(version) ? 1 : 0;
    use.stored_bytes += version.stored_bytes();
  });
}

void TenantUses::Add(const v1::Job& job) {
  if (scheduler::IsEnded(static_cast<scheduler::JobState>(job.state()))) return;
  Count(job.spec().tenant(), [](TenantUse& use) { ++use.jobs; });
}

void TenantUses::AddBytes(absl::string_view tenant, uint64_t bytes) {
  Count(tenant, [&](TenantUse& use) { use.stored_bytes += bytes; });
}

TenantUse TenantUses::Of(absl::string_view path) const {
  const auto found = uses_.find(path);
  return found == uses_.end() ? TenantUse() : found->second;
}

bool LimitsStoredBytes(const scheduler::TenantShares& shares,
                       absl::string_view tenant) {
  if (shares.empty() || tenant.empty()) return false;
  const auto path = scheduler::PathOf(tenant);
  return std::any_of(path.begin(), path.end(), [&](absl::string_view level) {
    const auto share = shares.find(level);
    return share != shares.end() && share->second.most_stored_bytes.has_value();
  });
}

absl::Status CheckStoredBytes(const scheduler::TenantShares& shares,
                              const TenantUses& uses, absl::string_view tenant,
                              uint64_t more) {
  if (tenant.empty()) return absl::OkStatus();
  for (const absl::string_view level : scheduler::PathOf(tenant)) {
    const auto share = shares.find(level);
    if (share == shares.end() || !share->second.most_stored_bytes) continue;
    const uint64_t limit = *share->second.most_stored_bytes;
    const uint64_t used = uses.Of(level).stored_bytes;
    if (used <= limit && more <= limit - used) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "tenant \"", level, "\" stores ", used,
        " bytes of data sets, models and uploads, may store ", limit,
        ", and asks for ", more,
        " more; delete some with `gpupool datasets delete` or `gpupool models "
        "delete`, or have `stored-bytes` raised in the server's --tenants"));
  }
  return absl::OkStatus();
}

absl::Status CheckModelLoad(const Ledger& ledger,
                            const v1::ModelVersion& version) {
  const scheduler::TenantShares& shares = ledger.state.policy().tenants;
  if (version.tenant().empty() || IsLoaded(version)) return absl::OkStatus();
  for (const absl::string_view level : scheduler::PathOf(version.tenant())) {
    const auto share = shares.find(level);
    if (share == shares.end() || !share->second.most_models) continue;
    const uint64_t limit = *share->second.most_models;
    uint64_t loaded = 0, replaced = 0;
    for (const auto& [id, other] : ledger.versions()) {
      if (!IsLoaded(other) || !IsWithin(other.tenant(), level)) continue;
      ++loaded;
      if (other.model() == version.model()) replaced = 1;
    }
    if (loaded - replaced < limit) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "tenant \"", level, "\" has ", loaded,
        " versions of models loaded, may have ", limit,
        ", and asks for 1 more; unload one with `gpupool models unload`, or "
        "have `models` raised in the server's --tenants"));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
