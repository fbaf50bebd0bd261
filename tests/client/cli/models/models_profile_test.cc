#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using ModelsProfileTest = CommandTest;

TEST_F(ModelsProfileTest, WritesTheTraceAndPrintsItsTables) {
  const std::string file = WriteFile("model.json", "");
  EXPECT_EQ(Run({"models", "profile", "digits", "--requests", "2", "-O", file}),
            0);
  EXPECT_THAT(out(), StartsWith(absl::StrCat(
                         file, ": digits/3, 2 requests, ", FakeTrace().size(),
                         " B; open it at https://ui.perfetto.dev\n\nOP\t")));
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_EQ(text.str(), FakeTrace());
  EXPECT_EQ(Run({"models", "profile", "digits", "--version", "2", "-O", file,
                 "-o", "json"}),
            0);
  const auto json = nlohmann::json::parse(out());
  EXPECT_EQ(json["version"], "digits/2");
  EXPECT_EQ(json["requests"], 5);
}

TEST_F(ModelsProfileTest, DrawsAFlameGraph) {
  const std::string file = WriteFile("model.json", "");
  const std::string flame = WriteFile("model.svg", "");
  EXPECT_EQ(Run({"models", "profile", "digits", "-O", file, "--flame", flame}),
            0);
  std::ostringstream svg;
  svg << std::ifstream(flame).rdbuf();
  EXPECT_THAT(svg.str(), HasSubstr("<title>matmul: "));
  EXPECT_EQ(Run({"models", "profile", "digits", "-O", file, "--memory", flame}),
            0);
  svg.str("");
  svg << std::ifstream(flame).rdbuf();
  EXPECT_THAT(svg.str(), HasSubstr("peak 2.0 KiB at op 1"));
}

TEST_F(ModelsProfileTest, RefusesToWriteTwoThingsToOneFile) {
  const std::string file = WriteFile("model.json", "kept");
  EXPECT_EQ(Run({"models", "profile", "digits", "-O", file, "--memory", file}),
            2);
  EXPECT_THAT(err(), HasSubstr("--file and --memory"));
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  EXPECT_EQ(text.str(), "kept");
}

TEST_F(ModelsProfileTest, ChecksTheNumbers) {
  EXPECT_EQ(
      Run({"models", "profile", "digits", "--requests", "101", "-O", "x"}), 2);
  EXPECT_THAT(err(), HasSubstr("--requests: Value 101 not in range"));
  EXPECT_EQ(Run({"models", "profile", "digits", "--batch", "0", "-O", "x"}), 2);
  EXPECT_EQ(Run({"models", "profile", "digits"}), 2);
}

}  // namespace
}  // namespace gpupool::client
