// The kinds of values that settings have: how a value is read from text, what
// is allowed, and into which member of Config it goes.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/text/named_words.h"
#include "server/config.h"

namespace gpupool::server {

struct SettingKind {
  const char* value_name;  // "BYTES", for help
  std::string allowed;     // "1 to 64TiB"; empty: the help says it
  // Reads the one-line form. InvalidArgument says what is allowed.
  std::function<absl::Status(absl::string_view value, Config* config)> set;
  // Joins the items of a YAML list to the one-line form; 0: takes no such list.
  char separator = 0;
  // Reads a YAML list of named entries; null: takes no such list.
  std::function<absl::Status(const std::vector<scheduler::NamedWords>& entries,
                             Config* config)>
      set_entries = nullptr;
};

// A member that a setting fills.
template <typename T>
using Field = T& (*)(Config& config);

// Returns the member of Config, or of one of its parts, as a Field:
// In<&Config::listen>, In<&ApiLimits::dataset_bytes>.
template <auto kMember>
auto& In(Config& config) {
  using Member = decltype(kMember);
  if constexpr (std::is_invocable_v<Member, Config&>) {
    return config.*kMember;
  } else if constexpr (std::is_invocable_v<Member, ApiLimits&>) {
    return config.limits.*kMember;
  } else if constexpr (std::is_invocable_v<Member, SlotRingOptions&>) {
    return config.ring.*kMember;
  } else {
    return config.scheduling.*kMember;
  }
}

// Text that is not empty. With a separator also a YAML list of such texts.
SettingKind TextKind(const char* value_name, Field<std::string> field,
                     char separator = 0);
// One of a few words.
SettingKind WordKind(const char* value_name, Field<std::string> field,
                     std::vector<std::string> words);
SettingKind DeviceListKind(Field<std::string> field);
SettingKind AddressKind(Field<std::string> field);
SettingKind PortKind(Field<uint16_t> field);
SettingKind BytesKind(Field<uint64_t> field, uint64_t least, uint64_t most);
SettingKind CountKind(Field<uint32_t> field, uint32_t least, uint32_t most);
// Whole seconds.
SettingKind SecondsKind(Field<absl::Duration> field, uint32_t least,
                        uint32_t most);
// Seconds with a fraction, from 0 on.
SettingKind DelayKind(Field<absl::Duration> field, uint32_t most);
SettingKind FactorKind(Field<double> field, double least, double most);
SettingKind OrderKind(Field<scheduler::Order> field);
SettingKind PlacementKind(Field<scheduler::PlacementRule> field);
SettingKind TenantsKind(Field<scheduler::TenantShares> field);
SettingKind QueuesKind(Field<std::vector<scheduler::NamedWords>> field);

// "512", "64KiB", "1.5GiB"; bytes without a suffix.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);
// The reverse, with the largest suffix that leaves a whole number: "64KiB".
std::string BytesText(uint64_t bytes);
// "60"; whole seconds.
std::string SecondsText(absl::Duration duration);

}  // namespace gpupool::server
