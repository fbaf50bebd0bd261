// The settings of the daemon: a table with one row for each. Flags, keys of the
// configuration file, --help, the tables in docs/operations.md and the defaults
// in Config all come from it.
//
// To add a setting, add its row in settings.cc, its member in config.h, and
// use the member.
//
// Thread-safety: any thread; the table never changes.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/setting_kind.h"

namespace gpupool::server {

struct Setting {
  // Heading under which --help and the documentation show it.
  const char* group;
  // Flag without "--", and key in the configuration file.
  const char* name;
  SettingKind kind;
  // Default in the form of the flag; empty: `unset` tells what then applies.
  std::string initial;
  const char* help;  // a sentence without its full stop
  const char* unset = "";
  // Link in Markdown, for the documentation.
  const char* more = "";
};

// Returns all rows. Those of a group are adjacent.
const std::vector<Setting>& Settings();

// Returns the row of this name, or null. '_' and '-' are equal in names.
const Setting* FindSetting(absl::string_view name);

// Returns the name as flags spell it: "max-queue" for "max_queue".
std::string WithDashes(absl::string_view name);

// Returns the nearest name of a setting, or "" when none is near.
std::string NearestSetting(absl::string_view name);

}  // namespace gpupool::server
