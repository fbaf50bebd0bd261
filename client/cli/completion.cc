// gpupool completion: a script that teaches a shell the verbs and options.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <memory>
#include <ostream>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/app.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/completion_script.h"

namespace gpupool::client {
namespace {

// Returns the choices of CLI::IsMember. CLI11 shows them only in the text
// "FORMAT:{a,b}".
std::vector<std::string> Choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return absl::StrSplit(type.substr(open + 1, close - open - 1), ',');
}

void Describe(const CLI::App& app, std::vector<std::string> path,
              std::vector<CompletionNode>& nodes) {
  CompletionNode node;
  node.path = path;
  node.description = app.get_description();
  for (const CLI::App* verb : app.get_subcommands({})) {
    node.verbs.push_back(verb->get_name());
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden from users
    const bool takes_value = option->get_items_expected_max() > 0;
    for (const std::string& name : option->get_lnames()) {
      node.options.push_back({"--" + name, takes_value, Choices(*option),
                              option->get_description()});
    }
    for (const std::string& name : option->get_snames()) {
      node.options.push_back({"-" + name, takes_value, Choices(*option),
                              option->get_description()});
    }
  }
  nodes.push_back(std::move(node));
  for (const CLI::App* verb : app.get_subcommands({})) {
    std::vector<std::string> below = path;
    below.push_back(verb->get_name());
    Describe(*verb, below, nodes);
  }
}

int Completion(Context& context, const std::string& shell) {
  GlobalOptions options;
  Invocation invocation;
  std::vector<CompletionNode> nodes;
  Describe(*MakeApp(options, invocation), {}, nodes);
  *context.out().stream << (shell == "bash"  ? BashCompletion(nodes)
                            : shell == "zsh" ? ZshCompletion(nodes)
                                             : FishCompletion(nodes));
  return kOk;
}

}  // namespace

void AddCompletion(CLI::App& app, Invocation& invocation) {
  auto shell = std::make_shared<std::string>();
  CLI::App* verb = AddVerb(
      app, "completion", "Print a completion script for a shell.",
      "  source <(gpupool completion bash)\n"
      "  gpupool completion zsh > ~/.zfunc/_gpupool\n"
      "  gpupool completion fish > ~/.config/fish/completions/gpupool.fish");
  verb->add_option("SHELL", *shell, "The shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  invocation.On(verb, [shell](Context& c) { return Completion(c, *shell); });
}

}  // namespace gpupool::client
