// The table of settings as text: for --help, and as Markdown for the page of
// the documentation.
//
// Pure functions; any thread.
#pragma once

#include <string>

#include "server/settings.h"

namespace gpupool::server {

// Returns what --help says of a setting, with its range and its default.
std::string HelpText(const Setting& setting);

// Returns one Markdown table for each group, under its name. docs/operations.md
// has them between two comments.
std::string SettingsTables();

}  // namespace gpupool::server
