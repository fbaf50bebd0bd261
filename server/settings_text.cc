#include "server/settings_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpupool::server {
namespace {

std::string DefaultCell(const Setting& setting) {
  if (setting.initial.empty()) return setting.unset;
  return absl::StrCat("`", setting.initial, "`");
}

std::string MeaningCell(const Setting& setting) {
  if (*setting.more == '\0') return setting.help;
  return absl::StrCat(setting.help, "; see ", setting.more);
}

// Returns the allowed values, and whether a list is allowed.
std::string AllowedCell(const Setting& setting) {
  if (setting.kind.set_entries != nullptr) return "one line, or a YAML list";
  if (setting.kind.repeats) return "several times, or a YAML list";
  if (setting.kind.separator != 0) return "one word, or a YAML list";
  return setting.kind.allowed.empty() ? "not empty" : setting.kind.allowed;
}

std::string Row(const Setting& setting) {
  return absl::StrCat("| `--", setting.name, " ", setting.kind.value_name,
                      "` | ", AllowedCell(setting), " | ", DefaultCell(setting),
                      " | ", MeaningCell(setting), " |\n");
}

}  // namespace

std::string HelpText(const Setting& setting) {
  std::vector<std::string> parts;
  if (!setting.kind.allowed.empty()) parts.push_back(setting.kind.allowed);
  if (!setting.initial.empty()) {
    parts.push_back(absl::StrCat("default: ", setting.initial));
  } else if (*setting.unset != '\0') {
    parts.push_back(absl::StrCat("default: ", setting.unset));
  }
  return absl::StrCat(setting.help, " (", absl::StrJoin(parts, "; "), ")");
}

std::string SettingsTables() {
  std::string text;
  absl::string_view group;
  for (const Setting& setting : Settings()) {
    if (setting.group != group) {
      absl::StrAppend(&text, group.empty() ? "" : "\n", "**", setting.group,
                      "**\n\n| setting | allowed | default | meaning |\n"
                      "|---|---|---|---|\n");
      group = setting.group;
    }
    absl::StrAppend(&text, Row(setting));
  }
  return text;
}

}  // namespace gpupool::server
