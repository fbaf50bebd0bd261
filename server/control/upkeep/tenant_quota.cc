#include "server/control/upkeep/tenant_quota.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "scheduler/state/fair_share.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/enqueue.h"
#include "server/control/records/ledger.h"
#include "server/control/records/tenant_use.h"
#include "server/control/records/transaction.h"
#include "server/store/blob_store.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

constexpr int kQuotaPage = 100;
constexpr int kMostQuotaPage = 1000;

// Counts the stored datasets and the uploads, but not those with a key in
// `own`.
absl::Status CountFiles(const ControlContext& context, const UploadKeys& own,
                        TenantUses* uses) {
  ASSIGN_OR_RETURN(const auto datasets, context.store->LoadDatasets());
  for (const v1::Dataset& dataset : datasets) uses->Add(dataset);
  for (const auto& [tenant, bytes] :
       context.blobs->partials().BytesByTenant(own)) {
    uses->AddBytes(tenant, bytes);
  }
  return absl::OkStatus();
}

template <typename Limit>
void SetUse(uint64_t used, const std::optional<Limit>& limit,
            v1::QuotaUse* use) {
  use->set_used(used);
  if (limit) use->set_limit(*limit);
}

// Returns the row of one tenant.
v1::TenantQuota QuotaOf(const scheduler::State& state, const TenantUses& uses,
                        const std::string& tenant) {
  static const scheduler::TenantShare kNoLimits;
  const scheduler::TenantShares& shares = state.policy().tenants;
  const auto found = shares.find(tenant);
  const scheduler::TenantShare& share =
      found == shares.end() ? kNoLimits : found->second;
  const TenantUse use = uses.Of(tenant);
  v1::TenantQuota row;
  row.set_tenant(tenant);
  SetUse(use.jobs, share.most_jobs, row.mutable_jobs());
  SetUse(state.usage().Devices(tenant), share.most, row.mutable_devices());
  SetUse(state.usage().Bytes(tenant), share.most_device_bytes,
         row.mutable_device_bytes());
  SetUse(use.models, share.most_models, row.mutable_models());
  SetUse(use.stored_bytes, share.most_stored_bytes, row.mutable_stored_bytes());
  return row;
}

v1::GetQuotaResponse PageOf(const v1::GetQuotaRequest& request,
                            const scheduler::State& state,
                            const TenantUses& uses) {
  v1::GetQuotaResponse page;
  if (!request.tenant().empty()) {
    *page.add_tenants() = QuotaOf(state, uses, request.tenant());
    return page;
  }
  absl::btree_set<std::string> names;
  for (const auto& [name, use] : uses.all()) names.insert(name);
  for (const auto& [name, share] : state.policy().tenants) names.insert(name);
  const int most = request.page_size() > 0
                       ? std::min(request.page_size(), kMostQuotaPage)
                       : kQuotaPage;
  for (auto name = names.upper_bound(request.page_token()); name != names.end();
       ++name) {
    if (page.tenants_size() == most) {
      page.set_next_page_token(page.tenants(most - 1).tenant());
      break;
    }
    *page.add_tenants() = QuotaOf(state, uses, *name);
  }
  return page;
}

}  // namespace

absl::Status CheckUploadRoom(const ControlContext& context,
                             const std::string& tenant, uint64_t more,
                             const UploadKeys& own) {
  const scheduler::TenantShares& shares = context.options.scheduling.tenants;
  if (!LimitsStoredBytes(shares, tenant)) return absl::OkStatus();
  TenantUses uses;
  RETURN_IF_ERROR(CountFiles(context, own, &uses));
  ASSIGN_OR_RETURN(const auto versions, context.store->LoadVersions());
  for (const v1::ModelVersion& version : versions) uses.Add(version);
  return CheckStoredBytes(shares, uses, tenant, more);
}

absl::Status CheckStoredRoom(Transaction& transaction,
                             const std::string& tenant, uint64_t more) {
  const Ledger& ledger = transaction.ledger();
  const scheduler::TenantShares& shares = ledger.state.policy().tenants;
  if (!LimitsStoredBytes(shares, tenant)) return absl::OkStatus();
  TenantUses uses;
  ASSIGN_OR_RETURN(const auto datasets, transaction.store().LoadDatasets());
  const auto& gone = transaction.batch().delete_datasets;
  for (const v1::Dataset& dataset : datasets) {
    if (std::find(gone.begin(), gone.end(), dataset.id()) == gone.end()) {
      uses.Add(dataset);
    }
  }
  // The store does not show what this transaction adds.
  for (const v1::Dataset& added : transaction.batch().upsert_datasets) {
    uses.Add(added);
  }
  for (const auto& [id, version] : ledger.versions()) uses.Add(version);
  return CheckStoredBytes(shares, uses, tenant, more);
}

void GetQuota(const ControlContext& context, const v1::GetQuotaRequest& request,
              Callback<v1::GetQuotaResponse> callback) {
  TenantUses uses;
  const absl::Status counted = CountFiles(context, /*own=*/{}, &uses);
  if (!counted.ok()) return callback(counted);
  Enqueue<v1::GetQuotaResponse>(
      context, callback,
      [request, uses = std::move(uses),
       callback](Transaction& transaction) mutable {
        const Ledger& ledger = transaction.ledger();
        for (const auto& [id, version] : ledger.versions()) uses.Add(version);
        for (const auto& [id, row] : ledger.jobs) uses.Add(row.job);
        callback(PageOf(request, ledger.state, uses));
      });
}

}  // namespace gpupool::server
