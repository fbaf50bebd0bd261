#include "scheduler/state/tenant_text.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gpupool::scheduler {
namespace {

absl::Status Wrong(absl::string_view tenant, absl::string_view what,
                   absl::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("tenant '", tenant, "': ", what, "; ", allowed));
}

bool IsName(absl::string_view name) {
  if (name.empty() || name.size() > 128) return false;
  if (name.front() == '.' || name.back() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

absl::Status Set(absl::string_view tenant, absl::string_view key,
                 absl::string_view value, TenantShare* share) {
  const std::string given = absl::StrCat(key, "=", value);
  if (key == "weight") {
    if (!absl::SimpleAtod(value, &share->weight) ||
        !(share->weight >= 1 / kMostWeight && share->weight <= kMostWeight)) {
      return Wrong(tenant, given,
                   absl::StrCat("a weight is a number from ", 1 / kMostWeight,
                                " to ", kMostWeight));
    }
    return absl::OkStatus();
  }
  if (key != "guaranteed" && key != "most") {
    return Wrong(tenant, given,
                 "known are weight=NUMBER, guaranteed=DEVICES, most=DEVICES");
  }
  uint32_t devices = 0;
  if (!absl::SimpleAtoi(value, &devices) || devices > kMostTenantDevices) {
    return Wrong(
        tenant, given,
        absl::StrCat("a number of devices is from 0 to ", kMostTenantDevices));
  }
  (key == "most" ? share->most : share->guaranteed) = devices;
  return absl::OkStatus();
}

absl::Status Parse(absl::string_view text, TenantShares* shares) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  const absl::string_view tenant = absl::StripAsciiWhitespace(parts.first);
  if (!IsName(tenant)) {
    return Wrong(
        tenant, "is no name",
        "names have letters, digits, '-', '_', and '.' between levels");
  }
  if (parts.second.empty()) {
    return Wrong(tenant, "nothing is set", "write NAME:weight=2,most=4");
  }
  TenantShare share;
  for (absl::string_view field : absl::StrSplit(parts.second, ',')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    absl::Status set = Set(tenant, absl::StripAsciiWhitespace(pair.first),
                           absl::StripAsciiWhitespace(pair.second), &share);
    if (!set.ok()) return set;
  }
  if (share.guaranteed && share.most && *share.guaranteed > *share.most) {
    return Wrong(tenant,
                 absl::StrCat("guaranteed=", *share.guaranteed,
                              " is above most=", *share.most),
                 "guarantee no more than it may use");
  }
  if (!shares->emplace(tenant, share).second) {
    return Wrong(tenant, "is there twice", "write all of it once");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TenantShares> ParseTenantShares(absl::string_view text) {
  TenantShares shares;
  for (absl::string_view one : absl::StrSplit(text, ';')) {
    if (absl::StripAsciiWhitespace(one).empty()) continue;
    if (absl::Status parsed = Parse(one, &shares); !parsed.ok()) return parsed;
    if (shares.size() > kMostTenantShares) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMostTenantShares,
                       " tenants; leave those out that need no setting"));
    }
  }
  return shares;
}

}  // namespace gpupool::scheduler
