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

// A verb: its words after "gpupool", its options and the verbs below it.
struct CompletionNode {
  std::vector<std::string> path;  // {"models", "load"}; {} is the program
  std::string description;
  std::vector<std::string> verbs;
  std::vector<CompletionOption> options;
};

// Returns scripts that the shell sources.
std::string BashCompletion(const std::vector<CompletionNode>& nodes);
std::string ZshCompletion(const std::vector<CompletionNode>& nodes);
std::string FishCompletion(const std::vector<CompletionNode>& nodes);

}  // namespace gpupool::client
