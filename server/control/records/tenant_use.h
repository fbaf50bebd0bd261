// Counts of the things that --tenants limits, by tenant. A thing counts for its
// tenant and for each tenant above it.
//
// Thread-safety: a value. CheckModelLoad is for the control thread, as Ledger.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "scheduler/state/fair_share.h"

namespace gpupool::server {

class Ledger;

struct TenantUse {
  uint64_t jobs = 0;    // that have not ended
  uint64_t models = 0;  // versions that are loaded
  uint64_t stored_bytes = 0;
};

class TenantUses {
 public:
  // Each counts the thing for its tenant. What has no tenant counts for nobody.
  void Add(const v1::Dataset& dataset);
  void Add(const v1::ModelVersion& version);
  void Add(const v1::Job& job);
  void AddBytes(absl::string_view tenant, uint64_t bytes);

  // Returns what the tenant at the end of the path has.
  TenantUse Of(absl::string_view path) const;
  // Returns all that have or had something, by path.
  const absl::btree_map<std::string, TenantUse>& all() const { return uses_; }

 private:
  template <typename Change>
  void Count(absl::string_view tenant, Change change);

  absl::btree_map<std::string, TenantUse> uses_;
};

// Returns the sum of the dataset's files, at most 2^64 - 1.
uint64_t BytesOf(const v1::Dataset& dataset);
// Returns whether the version is loaded or about to be.
bool IsLoaded(const v1::ModelVersion& version);

// Returns whether the tenant or one above it has a limit of stored bytes.
bool LimitsStoredBytes(const scheduler::TenantShares& shares,
                       absl::string_view tenant);
// Returns OK if the tenant, and each tenant above it, may store `more` bytes.
// ResourceExhausted names the tenant, its bytes and its limit.
absl::Status CheckStoredBytes(const scheduler::TenantShares& shares,
                              const TenantUses& uses, absl::string_view tenant,
                              uint64_t more);

// Returns OK if the version's tenant, and each tenant above it, may have it
// loaded. Passes for a version that is loaded already. One loaded version of
// the same model does not count, so that it can be replaced at the limit.
// ResourceExhausted names the tenant, its number and its limit.
absl::Status CheckModelLoad(const Ledger& ledger,
                            const v1::ModelVersion& version);

}  // namespace gpupool::server
