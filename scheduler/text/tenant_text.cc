#include "scheduler/text/tenant_text.h"

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace gpupool::scheduler {
namespace {

// Returns whether the text is names with single dots between them.
bool IsTenantName(absl::string_view name) {
  return IsEntryName(name) && name.back() != '.' &&
         !absl::StrContains(name, "..");
}

struct ByteSuffix {
  absl::string_view name;
  uint64_t factor;
};
constexpr ByteSuffix kByteSuffixes[] = {{"KiB", uint64_t{1} << 10},
                                        {"MiB", uint64_t{1} << 20},
                                        {"GiB", uint64_t{1} << 30},
                                        {"TiB", uint64_t{1} << 40}};

// Returns nothing for text that is no number of bytes from 0 to
// kMostTenantBytes.
std::optional<uint64_t> ParseTenantBytes(absl::string_view text) {
  for (const ByteSuffix& suffix : kByteSuffixes) {
    if (!absl::ConsumeSuffix(&text, suffix.name)) continue;
    // A double, so that "1.5GiB" can be written. A value beyond the range of
    // uint64_t must not be converted.
    double value = 0;
    if (!absl::SimpleAtod(text, &value)) return std::nullopt;
    value *= static_cast<double>(suffix.factor);
    if (!(value >= 0 && value <= static_cast<double>(kMostTenantBytes))) {
      return std::nullopt;
    }
    return static_cast<uint64_t>(value);
  }
  uint64_t bytes = 0;
  if (!absl::SimpleAtoi(text, &bytes) || bytes > kMostTenantBytes) {
    return std::nullopt;
  }
  return bytes;
}

// The rule that a value breaks; empty when the value was set.
using ShareRefusal = std::string;

// Sets the number of `things`, which is from 0 to `most`.
ShareRefusal SetNumber(absl::string_view value, absl::string_view things,
                       uint32_t most, std::optional<uint32_t>* number) {
  uint32_t parsed = 0;
  if (!absl::SimpleAtoi(value, &parsed) || parsed > most) {
    return absl::StrCat("a number of ", things, " is from 0 to ", most);
  }
  *number = parsed;
  return "";
}

ShareRefusal SetWeight(absl::string_view value, TenantShare* share) {
  if (!absl::SimpleAtod(value, &share->weight) ||
      !(share->weight >= 1 / kMostWeight && share->weight <= kMostWeight)) {
    return absl::StrCat("a weight is a number from ", 1 / kMostWeight, " to ",
                        kMostWeight);
  }
  return "";
}

ShareRefusal SetGuaranteed(absl::string_view value, TenantShare* share) {
  return SetNumber(value, "devices", kMostTenantDevices, &share->guaranteed);
}

ShareRefusal SetMostDevices(absl::string_view value, TenantShare* share) {
  return SetNumber(value, "devices", kMostTenantDevices, &share->most);
}

ShareRefusal SetMostJobs(absl::string_view value, TenantShare* share) {
  return SetNumber(value, "jobs", kMostTenantJobs, &share->most_jobs);
}

ShareRefusal SetMostModels(absl::string_view value, TenantShare* share) {
  return SetNumber(value, "models", kMostTenantModels, &share->most_models);
}

ShareRefusal SetBytes(absl::string_view value, std::optional<uint64_t>* bytes) {
  *bytes = ParseTenantBytes(value);
  if (bytes->has_value()) return "";
  return absl::StrCat("a number of bytes is from 0 to ", kMostTenantBytes,
                      ", with KiB, MiB, GiB or TiB if you like");
}

ShareRefusal SetStoredBytes(absl::string_view value, TenantShare* share) {
  return SetBytes(value, &share->most_stored_bytes);
}

ShareRefusal SetDeviceBytes(absl::string_view value, TenantShare* share) {
  return SetBytes(value, &share->most_device_bytes);
}

struct TenantField {
  absl::string_view key;
  absl::string_view value;
  ShareRefusal (*set)(absl::string_view value, TenantShare* share);
};
constexpr TenantField kTenantFields[] = {
    {"weight", "NUMBER", SetWeight},
    {"guaranteed", "DEVICES", SetGuaranteed},
    {"most", "DEVICES", SetMostDevices},
    {"jobs", "NUMBER", SetMostJobs},
    {"device-bytes", "BYTES", SetDeviceBytes},
    {"models", "NUMBER", SetMostModels},
    {"stored-bytes", "BYTES", SetStoredBytes},
};

std::string KnownTenantFields() {
  return absl::StrCat("known are ",
                      absl::StrJoin(kTenantFields, ", ",
                                    [](std::string* out, const TenantField& f) {
                                      absl::StrAppend(out, f.key, "=", f.value);
                                    }));
}

absl::Status SetShare(const NamedWords& tenant, const NamedWords::Word& word,
                      TenantShare* share) {
  const std::string given = absl::StrCat(word.key, "=", word.value, word.where);
  for (const TenantField& field : kTenantFields) {
    if (field.key != word.key) continue;
    const ShareRefusal refusal = field.set(word.value, share);
    if (refusal.empty()) return absl::OkStatus();
    return WrongEntry("tenant", tenant, given, refusal);
  }
  return WrongEntry("tenant", tenant, given, KnownTenantFields());
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
