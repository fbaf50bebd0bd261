// gpupool context.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/cli/contexts/context_list.h"
#include "tests/client/cli/command_test_base.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Gives each test its own file of contexts.
class ContextsTest : public CommandTest {
 protected:
  ContextsTest() {
    ::setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1);
    ::unsetenv("GPUPOOL_ADDRESS");
    ::unsetenv("GPUPOOL_CONTEXT");
  }
  ~ContextsTest() override { ::unsetenv("XDG_CONFIG_HOME"); }

  // Runs a command without an address of its own.
  int Call(const std::vector<std::string>& arguments) {
    shown_.str("");
    said_.str("");
    return RunCommandLine(arguments, {{.stream = &shown_}, {.stream = &said_}},
                          {});
  }

  std::string Touch(const std::string& name) const {
    std::ofstream(folder_ / name) << "x";
    return folder_ / name;
  }

  nlohmann::json Json(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"-o", "json"});
    EXPECT_EQ(Call(arguments), 0) << said_.str();
    return nlohmann::json::parse(shown_.str());
  }

  server::TempDir folder_;
  std::ostringstream shown_, said_;
};

TEST_F(ContextsTest, CommandsCallTheServerOfTheContext) {
  ASSERT_EQ(Call({"context", "add", "here", "--address", server_.address()}), 0)
      << said_.str();
  EXPECT_EQ(Call({"jobs", "--context", "here"}), 0) << said_.str();
  EXPECT_EQ(Call({"--context", "here", "jobs"}), 0) << said_.str();
  ASSERT_EQ(Call({"context", "use", "here"}), 0);
  EXPECT_THAT(said_.str(), HasSubstr("'here' is in use"));
  EXPECT_EQ(Call({"jobs"}), 0) << said_.str();
  EXPECT_EQ(Call({"jobs", "--context", "heer"}), 3);
  EXPECT_THAT(said_.str(), HasSubstr("did you mean 'here'? (known: here)"));
}

TEST_F(ContextsTest, AFailureNamesTheContext) {
  ASSERT_EQ(Call({"context", "add", "lab", "--address", "h:1", "--ca",
                  folder_ / "away.pem"}),
            0);
  EXPECT_THAT(said_.str(), AllOf(HasSubstr("warning: cannot read "),
                                 HasSubstr("away.pem: No such file")));
  EXPECT_EQ(Call({"jobs", "--context", "lab"}), 2);
  EXPECT_THAT(said_.str(),
              AllOf(HasSubstr("context 'lab': "), HasSubstr("away.pem")));
}

TEST_F(ContextsTest, KeepsAbsolutePathsAndACompleteAddress) {
  Touch("ca.pem");
  Touch("t");
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  EXPECT_EQ(Call({"context", "add", "lab", "--address", "h", "--ca", "ca.pem",
                  "--token-file", "./t"}),
            0)
      << said_.str();
  EXPECT_THAT(said_.str(), Not(HasSubstr("warning")));
  EXPECT_EQ(Call({"context", "add", "local", "--address", "unix:s/sock"}), 0);
  std::filesystem::current_path(before);
  const std::string real = std::filesystem::canonical(folder_.path());
  const nlohmann::json lab = Json({"context", "show", "lab"});
  EXPECT_EQ(lab["address"], "h:8001");
  EXPECT_EQ(lab["ca"], real + "/ca.pem");
  EXPECT_EQ(lab["token_file"], real + "/t");
  EXPECT_EQ(lab["client_cert"], "");
  EXPECT_EQ(lab["insecure"], false);
  EXPECT_EQ(Json({"context", "show", "local"})["address"],
            "unix:" + real + "/s/sock");
}

TEST_F(ContextsTest, RefusesWhatCouldNotWork) {
  const struct {
    std::vector<std::string> arguments;
    const char* reason;
  } kCases[] = {
      {{"lab"}, "needs --address"},
      {{"a b", "--address", "h"}, "'a b' cannot name a context"},
      {{"lab", "--address", "http://h"}, "leave out the scheme"},
      {{"lab", "--address", "h", "--ca", "/c", "--client-cert", "/x"},
       "'client_key' is missing"},
      {{"lab", "--address", "h", "--client-cert", "/x", "--client-key", "/y"},
       "'ca' is missing"},
      {{"lab", "--address", "h", "--token-file", "/t"}, "in the clear"},
      {{"lab", "--address", "h", "--context", "other"}, "--context"},
  };
  for (const auto& one : kCases) {
    std::vector<std::string> arguments = {"context", "add"};
    arguments.insert(arguments.end(), one.arguments.begin(),
                     one.arguments.end());
    EXPECT_EQ(Call(arguments), 2) << one.reason;
    EXPECT_THAT(said_.str(), HasSubstr(one.reason));
  }
  EXPECT_TRUE(Json({"context", "list"})["contexts"].empty());
  EXPECT_EQ(Call({"context", "add", "lab", "--address", "h", "--token-file",
                  "/t", "--insecure"}),
            0);
}

TEST_F(ContextsTest, ATokenIsNeverKept) {
  EXPECT_EQ(Call({"context", "add", "lab", "--address", "h", "--token",
                  "gpk_secret"}),
            2);
  EXPECT_THAT(said_.str(),
              AllOf(HasSubstr("keeps no token"), HasSubstr("--token-file"),
                    Not(HasSubstr("gpk_secret"))));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "gpupool/contexts.yaml"));
  EXPECT_EQ(Call({"completion", "bash"}), 0);
  EXPECT_THAT(shown_.str(), Not(HasSubstr("--token ")));
}

TEST_F(ContextsTest, TheSameAgainChangesNothingAndOtherContentNeedsReplace) {
  const std::vector<std::string> add = {"context", "add", "lab", "--address"};
  const auto with = [&](std::initializer_list<const char*> more) {
    std::vector<std::string> arguments = add;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Call(arguments);
  };
  EXPECT_EQ(with({"h:1"}), 0);
  EXPECT_EQ(with({"h:1"}), 0);
  EXPECT_EQ(with({"h:2"}), 6);
  EXPECT_THAT(said_.str(), AllOf(HasSubstr("h:1"), HasSubstr("--replace")));
  EXPECT_EQ(with({"h:2", "--replace"}), 0);
  EXPECT_EQ(Json({"context", "show", "lab"})["address"], "h:2");
}

TEST_F(ContextsTest, HasNoMoreThanTheLimit) {
  std::filesystem::create_directory(folder_ / "gpupool");
  {
    std::ofstream file(folder_ / "gpupool/contexts.yaml");
    file << "contexts:\n";
    for (size_t i = 0; i < kMostContexts; ++i) {
      file << "  c" << i << ": {address: 'h:1'}\n";
    }
  }
  ::chmod((folder_ / "gpupool/contexts.yaml").c_str(), 0600);
  EXPECT_EQ(Call({"context", "add", "more", "--address", "h"}), 7);
  EXPECT_THAT(said_.str(), HasSubstr("256 contexts"));
  EXPECT_EQ(Call({"context", "add", "c1", "--address", "h:2", "--replace"}), 0);
}

TEST_F(ContextsTest, ListsAndRemovesContexts) {
  for (const char* name : {"b", "a"}) {
    ASSERT_EQ(Call({"context", "add", name, "--address", "h:1"}), 0);
  }
  ASSERT_EQ(Call({"context", "use", "b"}), 0);
  EXPECT_EQ(Call({"context", "list"}), 0);
  EXPECT_EQ(shown_.str(),
            "NAME\tIN USE\tADDRESS\tCA\tTOKEN FILE\n"
            "a\t-\th:1\t-\t-\nb\tyes\th:1\t-\t-\n");
  EXPECT_EQ(Json({"context", "list"})["in_use"], "b");
  EXPECT_EQ(Json({"context", "show"})["name"], "b");
  EXPECT_EQ(Json({"context", "show", "--context", "a"})["name"], "a");
  EXPECT_EQ(Call({"context", "remove", "b"}), 0);
  EXPECT_THAT(said_.str(), HasSubstr("no context is in use"));
  EXPECT_EQ(Json({"context", "list"})["contexts"].size(), 1u);
  EXPECT_EQ(Call({"context", "remove", "b"}), 3);
  EXPECT_EQ(Call({"context", "show"}), 3);
  EXPECT_THAT(said_.str(), HasSubstr("no context is in use"));
}

TEST_F(ContextsTest, UseNeedsOneOfNameAndNone) {
  EXPECT_EQ(Call({"context", "use"}), 2);
  EXPECT_EQ(Call({"context", "use", "a", "--none"}), 2);
  EXPECT_EQ(Call({"context", "use", "a"}), 3);
  ASSERT_EQ(Call({"context", "add", "a", "--address", "h:1"}), 0);
  ASSERT_EQ(Call({"context", "use", "a"}), 0);
  EXPECT_EQ(Call({"context", "use", "--none"}), 0);
  EXPECT_EQ(Json({"context", "list"})["in_use"], "");
}

TEST_F(ContextsTest, UseWarnsOfAVariableThatComesFirst) {
  ASSERT_EQ(Call({"context", "add", "a", "--address", "h:1"}), 0);
  ::setenv("GPUPOOL_ADDRESS", "e:1", 1);
  EXPECT_EQ(Call({"context", "use", "a"}), 0);
  ::unsetenv("GPUPOOL_ADDRESS");
  EXPECT_THAT(said_.str(), HasSubstr("warning: GPUPOOL_ADDRESS is set"));
}

}  // namespace
}  // namespace gpupool::client
