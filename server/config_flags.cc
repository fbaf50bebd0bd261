#include "server/config_flags.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "server/config_file.h"
#include "server/settings.h"
#include "server/settings_text.h"
#include "tls/tls_files.h"

namespace gpupool::server {
namespace {

constexpr char kDescription[] =
    "gpupoold trains and serves models on the devices of this machine.";

struct Given {
  const Setting* setting;
  CLI::Option* option;
  std::string value;
};

// Flags that are not settings.
struct Verbs {
  std::string config_file;
  bool version = false;
  bool list_settings = false;
};

// Adds the flags that are no settings, such as --check.
void AddVerbs(CLI::App& app, Verbs* verbs, CommandLine* result) {
  app.add_option(
         "--config", verbs->config_file,
         "YAML file with the names of the settings as keys; flags override it")
      ->option_text("FILE");
  app.add_flag("--check", result->check,
               "check the whole database, report damage and exit");
  app.add_option(
         "--backup", result->backup,
         "copy the database to a new file and exit; a server may be running")
      ->option_text("FILE");
  app.add_flag(
      "--list-settings", verbs->list_settings,
      "print the settings as the tables of the documentation and exit");
  app.add_flag("--version", verbs->version, "print the version and exit");
}

void AddSettings(CLI::App& app, std::deque<Given>* given) {
  for (const Setting& setting : Settings()) {
    Given& flag = given->emplace_back(Given{&setting, nullptr, ""});
    flag.option = app.add_option(absl::StrCat("--", setting.name), flag.value,
                                 HelpText(setting))
                      ->option_text(setting.kind.value_name)
                      ->group(setting.group)
                      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (setting.kind.repeats) flag.option->join(setting.kind.separator);
  }
}

// Returns "did you mean --slots? " for the first unknown flag that is near a
// known one, or "".
std::string Suggestion(const CLI::App& app) {
  for (const std::string& argument : app.remaining()) {
    if (!absl::StartsWith(argument, "--")) continue;
    const size_t end = argument.find('=');
    const std::string name = argument.substr(2, end - 2);
    const std::string nearest = NearestSetting(name);
    if (!nearest.empty()) return absl::StrCat("did you mean --", nearest, "? ");
  }
  return "";
}

// Returns the environment variable of a setting: GPUPOOLD_MAX_QUEUE for
// max-queue.
std::string VariableOf(absl::string_view name) {
  return absl::StrCat("GPUPOOLD_", absl::AsciiStrToUpper(absl::StrReplaceAll(
                                       name, {{"-", "_"}})));
}

// Sets what the environment has, before the file, so that the file wins.
absl::Status SetFromEnvironment(Config* config) {
  for (const Setting& setting : Settings()) {
    const std::string variable = VariableOf(setting.name);
    const char* const value = std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0') continue;
    const absl::Status status = setting.kind.set(value, config);
    if (status.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the environment variable ", variable, " is \"", value,
                     "\": ", std::string(status.message())));
  }
  return absl::OkStatus();
}

// Sets the given flags, after the file, so that flags win.
absl::Status SetGiven(const std::deque<Given>& given, Config* config) {
  for (const Given& flag : given) {
    if (flag.option->count() == 0) continue;
    const absl::Status status = flag.setting->kind.set(flag.value, config);
    if (status.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag.setting->name, " is \"", flag.value,
                     "\": ", std::string(status.message())));
  }
  return absl::OkStatus();
}

// Checks that the ports differ, unless the system chooses them.
absl::Status CheckPorts(Config& config) {
  std::map<uint16_t, absl::string_view> names;
  for (const Setting& setting : Settings()) {
    if (setting.kind.port == nullptr) continue;
    const uint16_t port = setting.kind.port(config);
    const auto [other, is_new] = names.emplace(port, setting.name);
    if (is_new || port == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(other->second, " and ", setting.name, " are both ", port,
                     "; give each its own port, or 0 for any free one"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                             const std::string& version) {
  CommandLine result;
  CLI::App app(kDescription, "gpupoold");
  Verbs verbs;
  AddVerbs(app, &verbs, &result);
  std::deque<Given> given;  // a deque, since it keeps addresses
  AddSettings(app, &given);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    result.answer = app.help();
    return result;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(error.what(), "; ", Suggestion(app),
                     "gpupoold --help lists the flags"));
  }
  if (verbs.version) result.answer = absl::StrCat("gpupoold ", version, "\n");
  if (verbs.list_settings) result.answer = SettingsTables();
  if (result.answer.has_value()) return result;
  RETURN_IF_ERROR(SetFromEnvironment(&result.config));
  if (!verbs.config_file.empty()) {
    RETURN_IF_ERROR(ReadConfigFile(verbs.config_file, &result.config));
  }
  RETURN_IF_ERROR(SetGiven(given, &result.config));
  RETURN_IF_ERROR(CheckPorts(result.config));
  RETURN_IF_ERROR(tls::CheckComplete(result.config.tls));
  return result;
}

}  // namespace gpupool::server
