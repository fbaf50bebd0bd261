#include "scheduler/text/tenant_text.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gpupool::scheduler {
namespace {

// Returns whether the text is names with single dots between them.
bool IsTenantName(absl::string_view name) {
  return IsEntryName(name) && name.back() != '.' &&
         !absl::StrContains(name, "..");
}

absl::Status SetShare(const NamedWords& tenant, const NamedWords::Word& word,
                      TenantShare* share) {
  const std::string given = absl::StrCat(word.key, "=", word.value, word.where);
  if (word.key == "weight") {
    if (!absl::SimpleAtod(word.value, &share->weight) ||
        !(share->weight >= 1 / kMostWeight && share->weight <= kMostWeight)) {
      return WrongEntry("tenant", tenant, given,
                        absl::StrCat("a weight is a number from ",
                                     1 / kMostWeight, " to ", kMostWeight));
    }
    return absl::OkStatus();
  }
  if (word.key == "jobs") {
    uint32_t jobs = 0;
    if (!absl::SimpleAtoi(word.value, &jobs) || jobs > kMostTenantJobs) {
      return WrongEntry(
          "tenant", tenant, given,
          absl::StrCat("a number of jobs is from 0 to ", kMostTenantJobs));
    }
    share->most_jobs = jobs;
    return absl::OkStatus();
  }
  if (word.key != "guaranteed" && word.key != "most") {
    return WrongEntry("tenant", tenant, given,
                      "known are weight=NUMBER, guaranteed=DEVICES, "
                      "most=DEVICES, jobs=NUMBER");
  }
  uint32_t devices = 0;
  if (!absl::SimpleAtoi(word.value, &devices) || devices > kMostTenantDevices) {
    return WrongEntry(
        "tenant", tenant, given,
        absl::StrCat("a number of devices is from 0 to ", kMostTenantDevices));
  }
  (word.key == "most" ? share->most : share->guaranteed) = devices;
  return absl::OkStatus();
}

absl::Status Add(const NamedWords& tenant, TenantShares* shares) {
  if (!IsTenantName(tenant.name)) {
    return WrongEntry(
        "tenant", tenant, "is no name",
        "names have letters, digits, '-', '_', and '.' between levels");
  }
  if (tenant.words.empty()) {
    return WrongEntry("tenant", tenant, "nothing is set",
                      "give it a weight, a guarantee or a limit, as in "
                      "NAME:weight=2,most=4");
  }
  TenantShare share;
  for (const NamedWords::Word& word : tenant.words) {
    absl::Status set = SetShare(tenant, word, &share);
    if (!set.ok()) return set;
  }
  if (share.guaranteed && share.most && *share.guaranteed > *share.most) {
    return WrongEntry("tenant", tenant,
                      absl::StrCat("guaranteed=", *share.guaranteed,
                                   " is above most=", *share.most),
                      "guarantee no more than it may use");
  }
  if (!shares->emplace(tenant.name, share).second) {
    return WrongEntry("tenant", tenant, "is there twice",
                      "write all of it once");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TenantShares> MakeTenantShares(
    const std::vector<NamedWords>& entries) {
  if (entries.size() > kMostTenantShares) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMostTenantShares,
                     " tenants; leave those out that need no setting"));
  }
  TenantShares shares;
  for (const NamedWords& tenant : entries) {
    if (absl::Status added = Add(tenant, &shares); !added.ok()) return added;
  }
  return shares;
}

absl::StatusOr<TenantShares> ParseTenantShares(absl::string_view text) {
  return MakeTenantShares(SplitNamedWords(text));
}

}  // namespace gpupool::scheduler
