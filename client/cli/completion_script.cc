#include "client/cli/completion_script.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace gpupool::client {
namespace {

std::string Key(const std::vector<std::string>& path) {
  return absl::StrJoin(path, " ");
}

std::string OptionNames(const CompletionNode& node) {
  std::vector<std::string> names;
  for (const CompletionOption& option : node.options) {
    names.push_back(option.name);
  }
  return absl::StrJoin(names, " ");
}

// Returns every path of two or more levels, for the shell function that finds
// the verb.
std::string PathList(const std::vector<CompletionNode>& nodes) {
  std::vector<std::string> keys;
  for (const CompletionNode& node : nodes) {
    if (!node.path.empty())
      keys.push_back(absl::StrCat("'", Key(node.path), "'"));
  }
  return absl::StrJoin(keys, "|");
}

// Returns the `case` arms that complete values of options: the fixed choices if
// there are any, else files.
std::string ValueArms(const std::vector<CompletionNode>& nodes) {
  std::string arms;
  std::vector<std::string> seen;
  for (const CompletionNode& node : nodes) {
    for (const CompletionOption& option : node.options) {
      if (!option.takes_value) continue;
      absl::StrAppend(
          &arms, "    '", Key(node.path), "':", option.name, ") ",
          option.choices.empty()
              ? std::string("_gpupool_files")
              : absl::StrCat("_gpupool_words '",
                             absl::StrJoin(option.choices, " "), "'"),
          "; return ;;\n");
    }
  }
  return arms;
}

std::string WordArms(const std::vector<CompletionNode>& nodes) {
  std::string arms;
  for (const CompletionNode& node : nodes) {
    absl::StrAppend(&arms, "    '", Key(node.path), "') verbs='",
                    absl::StrJoin(node.verbs, " "), "' options='",
                    OptionNames(node), "' ;;\n");
  }
  return arms;
}

// Escapes `text` for a quoted string of the fish shell.
std::string FishText(const std::string& text) {
  return absl::StrReplaceAll(text.substr(0, text.find('\n')),
                             {{"\\", "\\\\"}, {"'", "\\'"}});
}

// Functions for bash, and for zsh with its bash emulation.
constexpr const char* kShell = R"(# Completion of gpupool.
_gpupool_words() {
  COMPREPLY=($(compgen -W "$1" -- "$current"))
}
_gpupool_files() {
  COMPREPLY=($(compgen -f -- "$current"))
}
_gpupool() {
  local current="${COMP_WORDS[COMP_CWORD]}"
  local previous="${COMP_WORDS[COMP_CWORD-1]}"
  local verb='' word verbs='' options=''
  COMPREPLY=()
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "${verb:+$verb }$word" in
      @PATHS@) verb="${verb:+$verb }$word" ;;
    esac
  done
  case "$verb:$previous" in
@VALUES@  esac
  case ":$previous" in
@GLOBALS@  esac
  case "$verb" in
@WORDS@  esac
  case "$current" in
    -*) _gpupool_words "$options" ;;
    *) _gpupool_words "$verbs"
       [ ${#COMPREPLY[@]} -gt 0 ] || _gpupool_files ;;
  esac
}
)";

std::string ShellFunctions(const std::vector<CompletionNode>& nodes) {
  // The program's own options may follow any verb.
  std::string globals;
  for (const CompletionNode& node : nodes) {
    if (node.path.empty()) {
      globals = absl::StrReplaceAll(ValueArms({node}), {{"'':", ":"}});
    }
  }
  return absl::StrReplaceAll(kShell, {{"@PATHS@", PathList(nodes)},
                                      {"@VALUES@", ValueArms(nodes)},
                                      {"@GLOBALS@", globals},
                                      {"@WORDS@", WordArms(nodes)}});
}

}  // namespace

std::string BashCompletion(const std::vector<CompletionNode>& nodes) {
  return absl::StrCat(ShellFunctions(nodes),
                      "complete -o filenames -F _gpupool gpupool\n");
}

std::string ZshCompletion(const std::vector<CompletionNode>& nodes) {
  return absl::StrCat(
      "#compdef gpupool\n", "autoload -U +X compinit && compinit\n",
      "autoload -U +X bashcompinit && bashcompinit\n", ShellFunctions(nodes),
      "complete -o filenames -F _gpupool gpupool\n");
}

std::string FishCompletion(const std::vector<CompletionNode>& nodes) {
  std::string script =
      "# Completion of gpupool.\n"
      "function __gpupool_at\n"
      "  set -l words (commandline -opc | string match -v -- '-*')\n"
      "  test \"$words[2..-1]\" = \"$argv\"\n"
      "end\n";
  for (const CompletionNode& node : nodes) {
    const std::string condition =
        absl::StrCat("-n '__gpupool_at ", Key(node.path), "'");
    for (const std::string& verb : node.verbs) {
      std::string description;
      std::vector<std::string> path = node.path;
      path.push_back(verb);
      for (const CompletionNode& child : nodes) {
        if (child.path == path) description = child.description;
      }
      absl::StrAppend(&script, "complete -c gpupool -f ", condition, " -a ",
                      verb, " -d '", FishText(description), "'\n");
    }
    for (const CompletionOption& option : node.options) {
      const bool is_long = option.name.rfind("--", 0) == 0;
      absl::StrAppend(
          &script, "complete -c gpupool ",
          node.path.empty() ? "" : condition + " ", is_long ? "-l " : "-s ",
          option.name.substr(is_long ? 2 : 1), option.takes_value ? " -r" : "");
      if (!option.choices.empty()) {
        absl::StrAppend(&script, " -f -a '", absl::StrJoin(option.choices, " "),
                        "'");
      }
      absl::StrAppend(&script, " -d '", FishText(option.description), "'\n");
    }
  }
  return script;
}

}  // namespace gpupool::client
