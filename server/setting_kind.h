// Kinds of setting values: how a value is read from text, which values are
// allowed, and which member of Config it fills.
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
  std::string allowed;     // "1 to 64TiB"; empty: in `help`
  // Reads the one-line form. InvalidArgument tells what is allowed.
  std::function<absl::Status(absl::string_view value, Config* config)> set;
  // Separator that joins a YAML list to the one-line form; 0: no such list.
  char separator = 0;
  // Whether the flag may be given several times. The separator then joins its
  // values.
  bool repeats = false;
  // Reads a YAML list of named entries; null: no such list.
  std::function<absl::Status(const std::vector<scheduler::NamedWords>& entries,
                             Config* config)>
      set_entries = nullptr;
  // The member that holds a port, of which no two may be equal; else null.
  uint16_t& (*port)(Config& config) = nullptr;
};

// Returns the member that a setting fills.
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
  } else if constexpr (std::is_invocable_v<Member, tls::TlsFiles&>) {
    return config.tls.*kMember;
  } else if constexpr (std::is_invocable_v<Member, SlotRingOptions&>) {
    return config.ring.*kMember;
  } else {
    return config.scheduling.*kMember;
  }
}

// Makes a kind for non-empty text; with a separator also for a YAML list of
// texts.
SettingKind TextKind(const char* value_name, Field<std::string> field,
                     char separator = 0);
// Makes a kind for folders with colons between them. The flag may be given for
// each of them.
SettingKind FoldersKind(Field<std::string> field);
// Makes a kind for one of a few words.
SettingKind WordKind(const char* value_name, Field<std::string> field,
                     std::vector<std::string> words);
// Makes a kind for true or false.
SettingKind SwitchKind(Field<bool> field);
SettingKind DeviceListKind(Field<std::string> field);
SettingKind AddressKind(Field<std::string> field);
SettingKind PortKind(Field<uint16_t> field);
SettingKind BytesKind(Field<uint64_t> field, uint64_t least, uint64_t most);
// Makes a kind for bytes that 0 turns off.
SettingKind BytesOrZeroKind(Field<uint64_t> field, uint64_t least,
                            uint64_t most);
SettingKind CountKind(Field<uint32_t> field, uint32_t least, uint32_t most);
// Makes a kind for whole seconds.
SettingKind SecondsKind(Field<absl::Duration> field, uint32_t least,
                        uint32_t most);
// Makes a kind for seconds with a fraction, from 0 on.
SettingKind DelayKind(Field<absl::Duration> field, uint32_t most);
SettingKind FactorKind(Field<double> field, double least, double most);
// Makes a kind for the URL of a collector of traces.
SettingKind CollectorKind(Field<std::string> field);
SettingKind OrderKind(Field<scheduler::Order> field);
SettingKind PlacementKind(Field<scheduler::PlacementRule> field);
SettingKind TenantsKind(Field<scheduler::TenantShares> field);
SettingKind QueuesKind(Field<std::vector<scheduler::NamedWords>> field);

// Parses "512", "64KiB" or "1.5GiB"; bytes without a suffix.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);
// Returns "64KiB", with the largest suffix that leaves a whole number.
std::string BytesText(uint64_t bytes);
// Returns "60"; whole seconds.
std::string SecondsText(absl::Duration duration);

}  // namespace gpupool::server
