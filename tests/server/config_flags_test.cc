#include "server/config_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<CommandLine> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "gpupoold");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data(),
                          "0.1.0");
}

TEST(CommandLineTest, DefaultsWithoutFlags) {
  const auto line = Parse({});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.listen, "127.0.0.1");
  EXPECT_FALSE(line->answer.has_value());
}

TEST(CommandLineTest, FlagsWinOverTheFile) {
  TempDir directory;
  const std::string path = directory / "c.yaml";
  std::ofstream(path) << "grpc-port: 1\nhttp-port: 2\n";
  const auto line = Parse({"--grpc-port", "3", "--config", path.c_str()});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.grpc_port, 3);
  EXPECT_EQ(line->config.http_port, 2);
}

TEST(CommandLineTest, LastOfARepeatedFlagWins) {
  const auto line = Parse({"--grpc-port", "3", "--grpc-port", "4"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.grpc_port, 4);
}

TEST(CommandLineTest, BadFlagsSayWhatIsWrong) {
  const auto unknown = Parse({"--gprc-port", "1"});
  EXPECT_TRUE(absl::IsInvalidArgument(unknown.status()));
  EXPECT_THAT(std::string(unknown.status().message()),
              HasSubstr("--gprc-port"));
  const auto value = Parse({"--grpc-port", "many"});
  EXPECT_THAT(std::string(value.status().message()), HasSubstr("many"));
  EXPECT_FALSE(Parse({"stray"}).ok());
  EXPECT_FALSE(Parse({"--grpc-port"}).ok());
}

TEST(CommandLineTest, HelpListsEverySettingAndVersionIsPrinted) {
  const auto help = Parse({"--help"});
  ASSERT_TRUE(help.ok() && help->answer.has_value());
  for (const Setting& setting : Settings()) {
    EXPECT_THAT(*help->answer, HasSubstr(std::string("--") + setting.name));
  }
  EXPECT_EQ(*Parse({"--version"})->answer, "gpupoold 0.1.0\n");
}

}  // namespace
}  // namespace gpupool::server
