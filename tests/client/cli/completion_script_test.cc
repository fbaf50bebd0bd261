#include "client/cli/completion_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

std::vector<CompletionNode> Nodes() {
  return {
      {{}, "", {"jobs", "models"}, {{"--output", true, {"json", "yaml"}, ""}}},
      {{"jobs"}, "List jobs", {}, {{"--state", true, {"running"}, "It's"}}},
      {{"models"}, "Models", {"load", "list"}, {}},
      {{"models", "load"}, "Load", {}, {{"--wait", false, {}, ""}}},
  };
}

// Returns the words that a real bash offers after `words`, the last of which is
// being typed.
std::string Complete(const std::string& words) {
  const std::string path = ::testing::TempDir() + "/completion_test-" +
                           std::to_string(::getpid()) + ".bash";
  std::ofstream(path) << BashCompletion(Nodes()) << "COMP_WORDS=(" << words
                      << ")\nCOMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))\n"
                      << "_gpupool\necho \"${COMPREPLY[*]}\"\n";
  std::FILE* bash = popen(("bash " + path + " 2>&1").c_str(), "r");
  std::string answer;
  char buffer[256];
  while (std::fgets(buffer, sizeof(buffer), bash) != nullptr) answer += buffer;
  pclose(bash);
  std::remove(path.c_str());
  return answer;
}

TEST(BashCompletionTest, OffersVerbsAndOptions) {
  EXPECT_EQ(Complete("gpupool ''"), "jobs models\n");
  EXPECT_EQ(Complete("gpupool mo"), "models\n");
  EXPECT_EQ(Complete("gpupool models l"), "load list\n");
  EXPECT_EQ(Complete("gpupool models load --w"), "--wait\n");
  EXPECT_EQ(Complete("gpupool models load -"), "--wait\n");
}

TEST(BashCompletionTest, OffersTheValuesOfAnOption) {
  EXPECT_EQ(Complete("gpupool jobs --state ''"), "running\n");
  EXPECT_EQ(Complete("gpupool --output j"), "json\n");
  EXPECT_EQ(Complete("gpupool jobs --output j"), "json\n")
      << "the program's options may follow a verb";
}

TEST(ZshCompletionTest, UsesTheSameFunctions) {
  EXPECT_THAT(ZshCompletion(Nodes()), HasSubstr("#compdef gpupool\n"));
  EXPECT_THAT(ZshCompletion(Nodes()), HasSubstr("bashcompinit"));
}

TEST(FishCompletionTest, NamesEachVerbUnderItsCondition) {
  const std::string script = FishCompletion(Nodes());
  EXPECT_THAT(script, HasSubstr("-n '__gpupool_at models' -a load -d 'Load'"));
  EXPECT_THAT(script,
              HasSubstr("-n '__gpupool_at jobs' -l state -r -f -a 'running' "
                        "-d 'It\\'s'"));
  EXPECT_THAT(script, HasSubstr("complete -c gpupool -l output -r"));
}

}  // namespace
}  // namespace gpupool::client
