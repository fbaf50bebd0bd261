// Completion scripts for shells, made from a description of the command line.
// Pure.
#pragma once

#include <string>
#include <vector>

namespace gpupool::client {

struct CompletionOption {
  std::string name;  // "--output", "-o"
  bool takes_value = false;
  std::vector<std::string> choices;  // values to offer; empty: files
  std::string description;
};

// One verb: its words after "gpupool", its own verbs and options.
struct CompletionNode {
  std::vector<std::string> path;  // {"models", "load"}; {} is the program
  std::string description;
  std::vector<std::string> verbs;
  std::vector<CompletionOption> options;
};

// Scripts to be sourced by the shell.
std::string BashCompletion(const std::vector<CompletionNode>& nodes);
std::string ZshCompletion(const std::vector<CompletionNode>& nodes);
std::string FishCompletion(const std::vector<CompletionNode>& nodes);

}  // namespace gpupool::client
