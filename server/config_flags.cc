#include "server/config_flags.h"

#include <CLI/CLI.hpp>
#include <deque>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

constexpr char kDescription[] =
    "gpupoold trains and serves models on the devices of this machine.";

struct Given {
  const Setting* setting;
  CLI::Option* option;
  std::string value;
};

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                             const std::string& version) {
  CommandLine result;
  CLI::App app(kDescription, "gpupoold");
  std::string config_file;
  app.add_option("--config", config_file,
                 "YAML file with the same names; flags win")
      ->option_text("FILE");
  app.add_flag("--check", result.check,
               "look at the whole database, say what is wrong and exit");
  app.add_option("--backup", result.backup,
                 "copy the database to a new file and exit; a server may be "
                 "at work on it")
      ->option_text("FILE");
  bool print_version = false;
  app.add_flag("--version", print_version, "print the version and exit");
  std::deque<Given> given;  // keeps addresses
  for (const Setting& setting : Settings()) {
    Given& flag = given.emplace_back(Given{&setting, nullptr, ""});
    flag.option = app.add_option(absl::StrCat("--", setting.name), flag.value,
                                 setting.help)
                      ->option_text(setting.value_name)
                      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    result.answer = app.help();
    return result;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(error.what(), "; gpupoold --help lists the flags"));
  }
  if (print_version) {
    result.answer = absl::StrCat("gpupoold ", version, "\n");
    return result;
  }
  if (!config_file.empty()) {
    RETURN_IF_ERROR(ReadConfigFile(config_file, &result.config));
  }
  for (const Given& flag : given) {
    if (flag.option->count() == 0) continue;
    const absl::Status status = flag.setting->set(flag.value, &result.config);
    if (status.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag.setting->name, " is \"", flag.value,
                     "\": ", std::string(status.message())));
  }
  return result;
}

}  // namespace gpupool::server
