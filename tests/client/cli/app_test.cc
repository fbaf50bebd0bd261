#include "client/cli/app.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "client/cli/command/context.h"
#include "tests/client/cli/command_test_base.h"
#include "tests/tls/test_authority.h"

namespace gpupool::client {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using AppTest = CommandTest;

TEST_F(AppTest, SuggestsAVerb) {
  EXPECT_EQ(Run({"jbos"}), 2);
  EXPECT_THAT(err(), HasSubstr("unknown verb 'jbos'; did you mean 'jobs'?"));
  EXPECT_THAT(err(), EndsWith("See `gpupool --help`.\n"));
  EXPECT_EQ(Run({"-o", "json", "models", "lod"}), 2);
  EXPECT_THAT(err(), HasSubstr("unknown verb 'lod'; did you mean 'load'?"));
  EXPECT_THAT(err(), EndsWith("See `gpupool models --help`.\n"));
}

TEST_F(AppTest, AWrongValueOfAnOptionIsNoVerb) {
  EXPECT_EQ(Run({"sim", "--jobs", "0"}), 2);
  EXPECT_THAT(err(), Not(HasSubstr("unknown verb")));
  EXPECT_THAT(err(), HasSubstr("--jobs"));
}

TEST_F(AppTest, RefusesWrongGlobalOptions) {
  EXPECT_EQ(Run({"jobs", "-o", "xml"}), 2);
  EXPECT_EQ(Run({"jobs", "--timeout", "never"}), 2);
  EXPECT_THAT(err(), HasSubstr("'never' is not a duration"));
  EXPECT_EQ(Run({"jobs", "--colour"}), 2);
  EXPECT_EQ(Run({"get"}), 2);
  EXPECT_THAT(err(), HasSubstr("JOB is required"));
}

TEST_F(AppTest, TakesGlobalOptionsBeforeAndAfterTheVerb) {
  EXPECT_EQ(Run({"-o", "json", "jobs"}), 0);
  EXPECT_THAT(out(), HasSubstr("\"jobs\""));
  EXPECT_EQ(Run({"models", "list", "-o", "json"}), 0);
  EXPECT_THAT(out(), HasSubstr("\"models\""));
}

TEST_F(AppTest, RefusesAnAddressThatIsNone) {
  EXPECT_EQ(Run({"jobs", "--address", "http://x"}), 2);
}

TEST_F(AppTest, SpeaksTlsWithTheFilesOfOptionsOrOfTheEnvironment) {
  const tls::TestAuthority authority;
  tls::TlsFiles files = authority.Server("127.0.0.1");
  files.client_ca = authority.ca();
  FakeServer server(files);
  const tls::TlsFiles own = authority.Client("mia");
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"jobs", "--address", server.address()});
    std::ostringstream out, err;
    const int code =
        RunCommandLine(arguments, {{.stream = &out}, {.stream = &err}}, {});
    return absl::StrCat(code, " ", err.str());
  };
  EXPECT_EQ(run({"--ca", authority.ca(), "--client-cert", own.certificate,
                 "--client-key", own.key}),
            "0 ");
  EXPECT_THAT(run({}), AllOf(StartsWith("5 "), HasSubstr("with --ca")));
  EXPECT_THAT(run({"--ca", authority.ca(), "--client-cert", own.certificate}),
              AllOf(StartsWith("2 "), HasSubstr("give --client-key")));
  ::setenv("GPUPOOL_CA", authority.ca().c_str(), 1);
  ::setenv("GPUPOOL_CLIENT_CERT", own.certificate.c_str(), 1);
  ::setenv("GPUPOOL_CLIENT_KEY", own.key.c_str(), 1);
  EXPECT_EQ(run({}), "0 ");
  EXPECT_THAT(run({"--ca", "/nowhere"}),
              AllOf(StartsWith("2 "), HasSubstr("cannot read /nowhere")));
  for (const char* name :
       {"GPUPOOL_CA", "GPUPOOL_CLIENT_CERT", "GPUPOOL_CLIENT_KEY"}) {
    ::unsetenv(name);
  }
}

TEST_F(AppTest, ReportsAServerThatIsAway) {
  server_.Stop();
  EXPECT_EQ(Run({"jobs", "--timeout", "3"}), 5);
  EXPECT_EQ(out(), "");
  EXPECT_THAT(err(), HasSubstr("error: cannot reach a server at "));
}

TEST(RunCommandLineTest, OutputThatCannotBeWrittenIsAFailure) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"completion", "bash"}, {"--help"}}) {
    std::ofstream out("/dev/full");
    std::ostringstream err;
    EXPECT_EQ(
        RunCommandLine(arguments, {{.stream = &out}, {.stream = &err}}, {}), 1);
    EXPECT_THAT(err.str(), HasSubstr("the output cannot be written"));
  }
}

TEST(RunCommandLineTest, ExplainsItselfWithoutArguments) {
  std::ostringstream out, err;
  EXPECT_EQ(RunCommandLine({}, {{.stream = &out}, {.stream = &err}}, {}), 2);
  EXPECT_THAT(err.str(), HasSubstr("First steps:"));
}

// Checks that every verb explains itself with an example, in lines of 80
// columns.
void CheckHelp(const CLI::App& verb, std::vector<std::string> path) {
  for (const CLI::App* below : verb.get_subcommands({})) {
    std::vector<std::string> words = path;
    words.push_back(below->get_name());
    CheckHelp(*below, words);
  }
  path.push_back("--help");
  std::ostringstream out, err;
  EXPECT_EQ(RunCommandLine(path, {{.stream = &out}, {.stream = &err}}, {}), 0);
  EXPECT_EQ(err.str(), "");
  EXPECT_THAT(out.str(), HasSubstr("  gpupool ")) << verb.get_name();
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80u) << verb.get_name() << ": " << line;
  }
}

TEST(HelpTest, EveryVerbHasAnExample) {
  GlobalOptions options;
  Invocation invocation;
  CheckHelp(*MakeApp(options, invocation), {});
}

TEST(CompletionTest, PrintsAScriptForEachShell) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    std::ostringstream out, err;
    EXPECT_EQ(RunCommandLine({"completion", shell},
                             {{.stream = &out}, {.stream = &err}}, {}),
              0);
    EXPECT_THAT(out.str(), HasSubstr("promote")) << shell;
    EXPECT_THAT(out.str(), HasSubstr("backing_off")) << shell;
  }
  std::ostringstream out, err;
  EXPECT_EQ(RunCommandLine({"completion", "tcsh"},
                           {{.stream = &out}, {.stream = &err}}, {}),
            2);
}

}  // namespace
}  // namespace gpupool::client
