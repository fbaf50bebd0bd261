#include "client/cli/help_formatter.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <string>

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

TEST(WrapTest, BreaksAtSpaces) {
  EXPECT_EQ(Wrap("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(Wrap("one two three", 80, 2), "one two three");
  EXPECT_EQ(Wrap("", 10, 2), "");
}

TEST(WrapTest, KeepsLongWordsAndLineEnds) {
  EXPECT_EQ(Wrap("a verylongword b", 5, 0), "a\nverylongword\nb");
  EXPECT_EQ(Wrap("a\nb", 80, 1), "a\n b");
}

TEST(HelpFormatterTest, ChoicesAreListedOnce) {
  CLI::App app;
  app.formatter(MakeHelpFormatter());
  std::string color;
  app.add_option("--named", color, "red or blue (default: red)")
      ->check(CLI::IsMember({"red", "blue"}))
      ->type_name("COLOR");
  app.add_option("--listed", color, "How it looks, redder or not")
      ->check(CLI::IsMember({"red", "blue"}))
      ->type_name("COLOR");
  EXPECT_THAT(
      app.help(),
      HasSubstr("--named COLOR           red or blue (default: red)\n"));
  EXPECT_THAT(app.help(), HasSubstr("redder or not: red, blue\n"));
}

}  // namespace
}  // namespace gpupool::client
