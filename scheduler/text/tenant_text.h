// Tenants' shares as text, for flags and configuration files:
//
//   research:weight=3,guaranteed=4;research.vision:most=2;shop:jobs=50
//   lab:device-bytes=80GiB,models=4,stored-bytes=200GiB
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/state/fair_share.h"
#include "scheduler/text/named_words.h"

namespace gpupool::scheduler {

inline constexpr size_t kMostTenantShares = 1000;
inline constexpr double kMostWeight = 1e6;  // the least is 1 / this
inline constexpr uint32_t kMostTenantDevices = 1 << 20;
inline constexpr uint32_t kMostTenantJobs = 1 << 20;
inline constexpr uint32_t kMostTenantModels = 1 << 20;
inline constexpr uint64_t kMostTenantBytes = uint64_t{1} << 60;

// Returns the shares of the entries. InvalidArgument names the tenant, the
// value and what is allowed, for example when a guarantee is above the tenant's
// limit.
absl::StatusOr<TenantShares> MakeTenantShares(
    const std::vector<NamedWords>& entries);

// Returns the shares of the one-line form. Empty text has none.
absl::StatusOr<TenantShares> ParseTenantShares(absl::string_view text);

}  // namespace gpupool::scheduler
