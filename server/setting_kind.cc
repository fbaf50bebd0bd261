#include "server/setting_kind.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "scheduler/text/queue_text.h"
#include "scheduler/text/tenant_text.h"
#include "server/device_list.h"
#include "server/trace/collector_url.h"

namespace gpupool::server {
namespace {

using scheduler::NamedWords;

struct Suffix {
  absl::string_view name;
  uint64_t factor;
};
constexpr Suffix kSuffixes[] = {{"TiB", uint64_t{1} << 40},
                                {"GiB", uint64_t{1} << 30},
                                {"MiB", uint64_t{1} << 20},
                                {"KiB", uint64_t{1} << 10}};

constexpr char kFolderSeparator = ':';

std::string RangeText(absl::string_view least, absl::string_view most) {
  return absl::StrCat(least, " to ", most);
}

// Returns the whole number. The error calls it `what`, for example "a whole
// number".
template <typename Number>
absl::StatusOr<Number> ParseWhole(absl::string_view value, uint32_t least,
                                  uint32_t most, absl::string_view what) {
  uint32_t number = 0;
  if (absl::SimpleAtoi(value, &number) && number >= least && number <= most) {
    return static_cast<Number>(number);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must be ", what, " ", least, " .. ", most));
}

absl::Status SetQueues(const std::vector<NamedWords>& entries,
                       std::vector<NamedWords>* field) {
  RETURN_IF_ERROR(scheduler::MakeQueues(entries, {}).status());
  *field = entries;
  return absl::OkStatus();
}

}  // namespace

SettingKind TextKind(const char* value_name, Field<std::string> field,
                     char separator) {
  return {.value_name = value_name,
          .allowed = "",
          .set =
              [field](absl::string_view value, Config* config) {
                if (value.empty()) {
                  return absl::InvalidArgumentError("must not be empty");
                }
                field(*config) = std::string(value);
                return absl::OkStatus();
              },
          .separator = separator};
}

SettingKind FoldersKind(Field<std::string> field) {
  return {.value_name = "DIR",
          .allowed = "",
          .set =
              [field](absl::string_view value, Config* config) {
                if (absl::StrContains(value, "://")) {
                  return absl::InvalidArgumentError(
                      "must be folders of this machine; mount the bucket and "
                      "give its folder");
                }
                for (const absl::string_view part :
                     absl::StrSplit(value, kFolderSeparator)) {
                  if (!part.empty()) continue;
                  return absl::InvalidArgumentError(
                      "must be folders that are not empty, with colons between "
                      "them");
                }
                field(*config) = std::string(value);
                return absl::OkStatus();
              },
          .separator = kFolderSeparator,
          .repeats = true};
}

SettingKind WordKind(const char* value_name, Field<std::string> field,
                     std::vector<std::string> words) {
  std::string allowed = absl::StrJoin(words.begin(), words.end() - 1, ", ");
  absl::StrAppend(&allowed, " or ", words.back());
  return {
      .value_name = value_name,
      .allowed = allowed,
      .set = [field, allowed, words = std::move(words)](absl::string_view value,
                                                        Config* config) {
        if (std::find(words.begin(), words.end(), value) == words.end()) {
          return absl::InvalidArgumentError(absl::StrCat("must be ", allowed));
        }
        field(*config) = std::string(value);
        return absl::OkStatus();
      }};
}

SettingKind SwitchKind(Field<bool> field) {
  return {.value_name = "SWITCH",
          .allowed = "true or false",
          .set = [field](absl::string_view value, Config* config) {
            if (value != "true" && value != "false") {
              return absl::InvalidArgumentError("must be true or false");
            }
            field(*config) = value == "true";
            return absl::OkStatus();
          }};
}

SettingKind DeviceListKind(Field<std::string> field) {
  return {.value_name = "LIST",
          .allowed = "",
          .set =
              [field](absl::string_view value, Config* config) {
                RETURN_IF_ERROR(ParseDeviceList(value).status());
                field(*config) = std::string(value);
                return absl::OkStatus();
              },
          .separator = ','};
}

SettingKind AddressKind(Field<std::string> field) {
  return {.value_name = "ADDRESS",
          .allowed = "an IP address",
          .set = [field](absl::string_view value, Config* config) {
            unsigned char address[sizeof(in6_addr)];
            const std::string text(value);
            if (inet_pton(AF_INET, text.c_str(), address) != 1 &&
                inet_pton(AF_INET6, text.c_str(), address) != 1) {
              return absl::InvalidArgumentError(
                  "must be an IP address such as 127.0.0.1, 0.0.0.0 or ::1");
            }
            field(*config) = text;
            return absl::OkStatus();
          }};
}

SettingKind PortKind(Field<uint16_t> field) {
  return {.value_name = "PORT",
          .allowed = RangeText("0", absl::StrCat(UINT16_MAX)),
          .set =
              [field](absl::string_view value, Config* config) {
                ASSIGN_OR_RETURN(field(*config),
                                 ParseWhole<uint16_t>(value, 0, UINT16_MAX,
                                                      "a whole number"));
                return absl::OkStatus();
              },
          .port = field};
}

SettingKind BytesKind(Field<uint64_t> field, uint64_t least, uint64_t most) {
  const std::string allowed = RangeText(BytesText(least), BytesText(most));
  return {
      .value_name = "BYTES",
      .allowed = allowed,
      .set = [=](absl::string_view value, Config* config) {
        ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(value));
        if (bytes < least || bytes > most) {
          return absl::InvalidArgumentError(absl::StrCat("must be ", allowed));
        }
        field(*config) = bytes;
        return absl::OkStatus();
      }};
}

SettingKind BytesOrZeroKind(Field<uint64_t> field, uint64_t least,
                            uint64_t most) {
  const std::string allowed =
      absl::StrCat("0, or ", RangeText(BytesText(least), BytesText(most)));
  return {
      .value_name = "BYTES",
      .allowed = allowed,
      .set = [=](absl::string_view value, Config* config) {
        ASSIGN_OR_RETURN(const uint64_t bytes, ParseBytes(value));
        if (bytes != 0 && (bytes < least || bytes > most)) {
          return absl::InvalidArgumentError(absl::StrCat("must be ", allowed));
        }
        field(*config) = bytes;
        return absl::OkStatus();
      }};
}

SettingKind CountKind(Field<uint32_t> field, uint32_t least, uint32_t most) {
  return {.value_name = "COUNT",
          .allowed = RangeText(absl::StrCat(least), absl::StrCat(most)),
          .set = [=](absl::string_view value, Config* config) {
            ASSIGN_OR_RETURN(
                field(*config),
                ParseWhole<uint32_t>(value, least, most, "a whole number"));
            return absl::OkStatus();
          }};
}

SettingKind SecondsKind(Field<absl::Duration> field, uint32_t least,
                        uint32_t most) {
  return {.value_name = "SECONDS",
          .allowed = RangeText(absl::StrCat(least), absl::StrCat(most)),
          .set = [=](absl::string_view value, Config* config) {
            ASSIGN_OR_RETURN(const uint32_t seconds,
                             ParseWhole<uint32_t>(value, least, most,
                                                  "a whole number of seconds"));
            field(*config) = absl::Seconds(seconds);
            return absl::OkStatus();
          }};
}

SettingKind DelayKind(Field<absl::Duration> field, uint32_t most) {
  return {.value_name = "SECONDS",
          .allowed = RangeText("0", absl::StrCat(most)),
          .set = [=](absl::string_view value, Config* config) {
            double seconds = 0;
            // Negates the whole range, so that NaN is refused, too.
            if (!absl::SimpleAtod(value, &seconds) ||
                !(seconds >= 0 && seconds <= most)) {
              return absl::InvalidArgumentError(absl::StrCat(
                  "must be a number of seconds 0 .. ", most, ", as in 0.5"));
            }
            field(*config) = absl::Seconds(seconds);
            return absl::OkStatus();
          }};
}

SettingKind FactorKind(Field<double> field, double least, double most) {
  return {.value_name = "FACTOR",
          .allowed = RangeText(absl::StrCat(least), absl::StrCat(most)),
          .set = [=](absl::string_view value, Config* config) {
            double factor = 0;
            if (!absl::SimpleAtod(value, &factor) ||
                !(factor >= least && factor <= most)) {
              return absl::InvalidArgumentError(
                  absl::StrCat("must be a number ", least, " .. ", most));
            }
            field(*config) = factor;
            return absl::OkStatus();
          }};
}

SettingKind CollectorKind(Field<std::string> field) {
  return {.value_name = "URL",
          .allowed = "http:// or https://",
          .set = [field](absl::string_view value, Config* config) {
            RETURN_IF_ERROR(ParseCollectorUrl(value).status());
            field(*config) = std::string(value);
            return absl::OkStatus();
          }};
}

SettingKind OrderKind(Field<scheduler::Order> field) {
  return {.value_name = "ORDER",
          .allowed = scheduler::OrderWords(),
          .set = [field](absl::string_view value, Config* config) {
            ASSIGN_OR_RETURN(field(*config), scheduler::ParseOrder(value));
            return absl::OkStatus();
          }};
}

SettingKind PlacementKind(Field<scheduler::PlacementRule> field) {
  return {.value_name = "RULE",
          .allowed = "spread, best-fit or pack",
          .set = [field](absl::string_view value, Config* config) {
            ASSIGN_OR_RETURN(field(*config),
                             scheduler::ParsePlacementRule(value));
            return absl::OkStatus();
          }};
}

SettingKind TenantsKind(Field<scheduler::TenantShares> field) {
  const auto set_entries = [field](const std::vector<NamedWords>& entries,
                                   Config* config) {
    ASSIGN_OR_RETURN(field(*config), scheduler::MakeTenantShares(entries));
    return absl::OkStatus();
  };
  return {.value_name = "SHARES",
          .allowed = "",
          .set =
              [set_entries](absl::string_view value, Config* config) {
                return set_entries(scheduler::SplitNamedWords(value), config);
              },
          .set_entries = set_entries};
}

SettingKind QueuesKind(Field<std::vector<NamedWords>> field) {
  return {.value_name = "QUEUES",
          .allowed = "",
          .set =
              [field](absl::string_view value, Config* config) {
                return SetQueues(scheduler::SplitNamedWords(value),
                                 &field(*config));
              },
          .set_entries =
              [field](const std::vector<NamedWords>& entries, Config* config) {
                return SetQueues(entries, &field(*config));
              }};
}

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  const auto suffix = std::find_if(
      std::begin(kSuffixes), std::end(kSuffixes),
      [&](const Suffix& s) { return absl::EndsWith(text, s.name); });
  uint64_t bytes = 0;
  if (suffix == std::end(kSuffixes)) {
    if (absl::SimpleAtoi(text, &bytes)) return bytes;
  } else {
    const absl::string_view number =
        text.substr(0, text.size() - suffix->name.size());
    // A double, so that "1.5GiB" can be written. The bound is below 2^63; the
    // conversion of a larger value would be undefined.
    const double factor = static_cast<double>(suffix->factor);
    double value = 0;
    if (absl::SimpleAtod(number, &value) && std::isfinite(value) &&
        value >= 0 && value * factor < 9.2e18) {
      return static_cast<uint64_t>(value * factor);
    }
  }
  return absl::InvalidArgumentError(
      "must be a number of bytes, with KiB, MiB, GiB or TiB if you like");
}

std::string BytesText(uint64_t bytes) {
  for (const Suffix& suffix : kSuffixes) {
    if (bytes > 0 && bytes % suffix.factor == 0) {
      return absl::StrCat(bytes / suffix.factor, suffix.name);
    }
  }
  return absl::StrCat(bytes);
}

std::string SecondsText(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Seconds(duration));
}

}  // namespace gpupool::server
