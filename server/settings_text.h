// The table of settings as text: for --help, and as Markdown for the
// documentation.
//
// Pure functions; any thread.
#pragma once

#include <string>

#include "server/settings.h"

namespace gpupool::server {

// Returns the text of a setting in --help, with its range and its default.
std::string HelpText(const Setting& setting);

// Returns one Markdown table for each group, under its name. docs/operations.md
// has them between two marker comments.
std::string SettingsTables();

}  // namespace gpupool::server
