#include "server/config_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/settings.h"
#include "server/settings_text.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
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

// An environment variable while it exists.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    setenv(name, value, 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

TEST(CommandLineTest, TheFileAndFlagsWinOverTheEnvironment) {
  TempDir directory;
  const std::string path = directory / "c.yaml";
  std::ofstream(path) << "http-port: 2\n";
  const Variable grpc("GPUPOOLD_GRPC_PORT", "7");
  const Variable http("GPUPOOLD_HTTP_PORT", "8");
  const Variable metrics("GPUPOOLD_METRICS_PORT", "9");
  const Variable listen("GPUPOOLD_LISTEN", "");
  const auto line = Parse({"--metrics-port", "3", "--config", path.c_str()});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.grpc_port, 7);
  EXPECT_EQ(line->config.http_port, 2);
  EXPECT_EQ(line->config.metrics_port, 3);
  EXPECT_EQ(line->config.listen, "127.0.0.1") << "an empty one counts as none";
}

TEST(CommandLineTest, ABadVariableIsNamed) {
  const Variable wrong("GPUPOOLD_AUTH", "everybody");
  EXPECT_THAT(
      std::string(Parse({}).status().message()),
      AllOf(HasSubstr("GPUPOOLD_AUTH is \"everybody\""), HasSubstr("tokens")));
}

TEST(CommandLineTest, AFlagForFoldersMayBeRepeated) {
  const auto line =
      Parse({"--model-repository", "/a", "--model-repository=/b"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.model_repositories, "/a:/b");
}

TEST(CommandLineTest, LastOfARepeatedFlagWins) {
  const auto line = Parse({"--grpc-port", "3", "--grpc-port", "4"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.grpc_port, 4);
}

TEST(CommandLineTest, PortsDiffer) {
  EXPECT_THAT(
      std::string(Parse({"--grpc-port", "9", "--metrics-port", "9"})
                      .status()
                      .message()),
      HasSubstr("grpc-port and metrics-port are both 9; give each its own"));
  EXPECT_TRUE(Parse({"--grpc-port", "0", "--http-port", "0"}).ok());
}

TEST(CommandLineTest, TlsNeedsACertificateAndItsKey) {
  const auto line = Parse({"--tls-certificate", "a.pem", "--tls-key", "a.key",
                           "--tls-client-ca", "ca.pem"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.tls.certificate, "a.pem");
  EXPECT_EQ(line->config.tls.key, "a.key");
  EXPECT_EQ(line->config.tls.client_ca, "ca.pem");
  EXPECT_THAT(
      std::string(Parse({"--tls-certificate", "a.pem"}).status().message()),
      HasSubstr("tls-key is not set"));
  TempDir directory;
  const std::string path = directory / "c.yaml";
  std::ofstream(path) << "tls_client_ca: ca.pem\n";
  EXPECT_THAT(std::string(Parse({"--config", path.c_str()}).status().message()),
              HasSubstr("tls-certificate is not set"));
}

TEST(CommandLineTest, BadFlagsSayWhatIsWrong) {
  const auto unknown = Parse({"--gprc-port", "1"});
  EXPECT_TRUE(absl::IsInvalidArgument(unknown.status()));
  EXPECT_THAT(std::string(unknown.status().message()),
              HasSubstr("--gprc-port"));
  EXPECT_THAT(std::string(unknown.status().message()),
              HasSubstr("did you mean --grpc-port?"));
  EXPECT_THAT(std::string(Parse({"--quues=a"}).status().message()),
              HasSubstr("did you mean --queues?"));
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

TEST(CommandLineTest, EveryFlagIsASettingOrOneOfTheFewVerbs) {
  const std::set<std::string> verbs = {"config",        "check",   "backup",
                                       "list-settings", "version", "help"};
  const std::string help = *Parse({"--help"})->answer;
  std::set<std::string> seen;
  for (absl::string_view line : absl::StrSplit(help, '\n')) {
    // A flag's own line begins with it. Texts may name flags, too.
    line = absl::StripLeadingAsciiWhitespace(line);
    absl::ConsumePrefix(&line, "-h,");
    if (!absl::ConsumePrefix(&line, "--")) continue;
    const std::string name(line.substr(0, line.find(' ')));
    EXPECT_TRUE(FindSetting(name) != nullptr || verbs.contains(name)) << name;
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
  EXPECT_EQ(seen.size(), Settings().size() + verbs.size());
}

TEST(CommandLineTest, SettingsArePrintedForTheDocumentation) {
  const auto line = Parse({"--list-settings"});
  ASSERT_TRUE(line.ok() && line->answer.has_value());
  EXPECT_EQ(*line->answer, SettingsTables());
}

TEST(CommandLineTest, AFlagReplacesTheListOfTheFile) {
  TempDir directory;
  const std::string path = directory / "c.yaml";
  std::ofstream(path) << "queues:\n  - {name: a, rank: 1}\n"
                         "tenants:\n  - {name: a, weight: 2}\n";
  const auto line = Parse({"--config", path.c_str(), "--queues", "b:rank=3;c"});
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_EQ(line->config.queues.size(), 2u);
  EXPECT_EQ(line->config.queues[0].name, "b");
  EXPECT_EQ(line->config.scheduling.tenants.at("a").weight, 2);
}

}  // namespace
}  // namespace gpupool::server
