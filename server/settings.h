// The settings of the daemon: one table, one row each. Flags, the keys of the
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
  // The heading under which --help and the documentation show it.
  const char* group;
  // Its flag without "--", and its key in the configuration file.
  const char* name;
  SettingKind kind;
  // The default, as one writes it; empty: `unset` says what holds then.
  std::string initial;
  const char* help;  // a sentence without its full stop
  const char* unset = "";
  // A link in Markdown, for the documentation.
  const char* more = "";
};

// Returns all rows, those of a group side by side.
const std::vector<Setting>& Settings();

// Returns the row of this name, in which '_' and '-' mean the same; null when
// there is none.
const Setting* FindSetting(absl::string_view name);

// Returns the nearest of the names, or nothing when none is near.
std::string NearestSetting(absl::string_view name);

}  // namespace gpupool::server
