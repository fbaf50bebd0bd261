#include "client/cli/contexts/server_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/contexts/context_file.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

constexpr const char* kVariables[] = {
    "GPUPOOL_ADDRESS",    "GPUPOOL_CA",     "GPUPOOL_CLIENT_CERT",
    "GPUPOOL_CLIENT_KEY", "GPUPOOL_TOKEN",  "GPUPOOL_TOKEN_FILE",
    "GPUPOOL_CONTEXT",    "XDG_CONFIG_HOME"};

// Gives each test its own file of contexts and no other variable.
class ServerChoiceTest : public ::testing::Test {
 protected:
  ServerChoiceTest() {
    Clear();
    EXPECT_TRUE(UpdateContextFile(*ContextFilePath(), [](ContextList& list) {
                  list.in_use = "used";
                  list.contexts["used"] = Server("used");
                  list.contexts["named"] = Server("named");
                  list.contexts["plain"] = {.address = "plain:1"};
                  list.contexts["open"] = {.address = "open:1",
                                           .token_file = "/open.token",
                                           .insecure = true};
                  return absl::OkStatus();
                }).ok());
  }
  ~ServerChoiceTest() override {
    Clear();
    ::unsetenv("XDG_CONFIG_HOME");
  }

  static ServerContext Server(const std::string& name) {
    return {.address = name + ":1",
            .tls = {.ca = absl::StrCat("/", name, ".ca"),
                    .certificate = absl::StrCat("/", name, ".pem"),
                    .key = absl::StrCat("/", name, ".key")},
            .token_file = absl::StrCat("/", name, ".token")};
  }

  void Clear() {
    for (const char* name : kVariables) ::unsetenv(name);
    ::setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1);
  }

  // Returns "ADDRESS CA CERTIFICATE KEY TOKEN TOKEN_FILE INSECURE CONTEXT".
  static std::string Text(const ServerChoice& choice) {
    const auto word = [](const std::string& text) {
      return text.empty() ? std::string("-") : text;
    };
    return absl::StrCat(
        word(choice.address), " ", word(choice.tls.ca), " ",
        word(choice.tls.certificate), " ", word(choice.tls.key), " ",
        word(choice.token.token), " ", word(choice.token.file), " ",
        choice.token.insecure ? "insecure" : "-", " ", word(choice.context));
  }

  std::string Choose(const ServerFlags& flags,
                     const std::map<std::string, std::string>& variables) {
    Clear();
    for (const auto& [name, value] : variables) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    const auto choice = ChooseServer(flags);
    return choice.ok() ? Text(*choice) : std::string(choice.status().message());
  }

  struct Case {
    const char* rule;
    ServerFlags flags;
    std::map<std::string, std::string> variables;
    const char* expected;
  };

  void Check(const std::vector<Case>& cases) {
    for (const Case& one : cases) {
      EXPECT_EQ(Choose(one.flags, one.variables), one.expected) << one.rule;
    }
  }

  server::TempDir folder_;
};

TEST_F(ServerChoiceTest, TheFirstSourceCounts) {
  Check({
      {"the context in use comes before the default",
       {},
       {},
       "used:1 /used.ca /used.pem /used.key - /used.token - used"},
      {"GPUPOOL_CONTEXT comes before the context in use",
       {},
       {{"GPUPOOL_CONTEXT", "named"}},
       "named:1 /named.ca /named.pem /named.key - /named.token - named"},
      {"an empty GPUPOOL_CONTEXT is none",
       {},
       {{"GPUPOOL_CONTEXT", ""}},
       "used:1 /used.ca /used.pem /used.key - /used.token - used"},
      {"GPUPOOL_ADDRESS comes before contexts and takes nothing of them",
       {},
       {{"GPUPOOL_ADDRESS", "env:1"}, {"GPUPOOL_CONTEXT", "named"}},
       "env:1 - - - - - - -"},
      {"variables of files come before a context that is not on the line",
       {},
       {{"GPUPOOL_CA", "/e.ca"}, {"GPUPOOL_TOKEN", "secret"}},
       "used:1 /e.ca /used.pem /used.key secret - - used"},
      {"a certificate of the environment does not get the context's key",
       {},
       {{"GPUPOOL_CLIENT_CERT", "/e.pem"}, {"GPUPOOL_TOKEN_FILE", "/e.token"}},
       "used:1 /used.ca /e.pem - - /e.token - used"},
      {"--context comes before the environment, which does not count at all",
       {.context = "plain"},
       {{"GPUPOOL_ADDRESS", "env:1"},
        {"GPUPOOL_CA", "/e.ca"},
        {"GPUPOOL_CLIENT_CERT", "/e.pem"},
        {"GPUPOOL_CLIENT_KEY", "/e.key"},
        {"GPUPOOL_TOKEN", "secret"},
        {"GPUPOOL_TOKEN_FILE", "/e.token"},
        {"GPUPOOL_CONTEXT", "named"}},
       "plain:1 - - - - - - plain"},
  });
}

TEST_F(ServerChoiceTest, AFlagCountsForItsFieldAlone) {
  Check({
      {"--address comes before contexts and takes nothing of them",
       {.address = "flag:1"},
       {{"GPUPOOL_CONTEXT", "named"}, {"GPUPOOL_CA", "/e.ca"}},
       "flag:1 /e.ca - - - - - -"},
      {"flags change single fields of --context",
       {.address = "flag:1", .ca = "/f.ca", .context = "named"},
       {},
       "flag:1 /f.ca /named.pem /named.key - /named.token - named"},
      {"a flag without a text takes a field away",
       {.ca = "", .certificate = "", .key = "", .token_file = ""},
       {{"GPUPOOL_TOKEN", "secret"}},
       "used:1 - - - - - - used"},
      {"--token-file comes before the token of the environment",
       {.address = "flag:1", .token_file = "/f.token"},
       {{"GPUPOOL_TOKEN", "secret"}},
       "flag:1 - - - - /f.token - -"},
      {"an insecure context is so for its address",
       {.context = "open"},
       {},
       "open:1 - - - - /open.token insecure open"},
      {"and for no other address",
       {.address = "flag:1", .context = "open"},
       {},
       "flag:1 - - - - /open.token - open"},
      {"--insecure is for every address",
       {.address = "flag:1", .insecure = true},
       {},
       "flag:1 - - - - - insecure -"},
  });
}

TEST_F(ServerChoiceTest, WithoutAContextInUseTheDefaultCounts) {
  ASSERT_TRUE(UpdateContextFile(*ContextFilePath(), [](ContextList& list) {
                list.in_use.clear();
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(Choose({}, {}), "127.0.0.1:8001 - - - - - - -");
}

TEST_F(ServerChoiceTest, AnUnknownNameIsAnErrorAndNoOtherServer) {
  for (const std::string& text : {Choose({.context = "nmaed"}, {}),
                                  Choose({}, {{"GPUPOOL_CONTEXT", "nmaed"}})}) {
    EXPECT_THAT(text, HasSubstr("no context 'nmaed'; did you mean 'named'?"));
  }
  EXPECT_THAT(Choose({.context = ""}, {}), HasSubstr("no context ''"));
}

TEST_F(ServerChoiceTest, ABrokenFileCountsOnlyWhereAContextMay) {
  const std::string path = *ContextFilePath();
  std::ofstream(path) << "contexts: [";  // keeps the mode
  EXPECT_THAT(Choose({}, {}), HasSubstr(path + ":"));
  EXPECT_EQ(Choose({.address = "flag:1"}, {}), "flag:1 - - - - - - -");
  EXPECT_EQ(Choose({}, {{"GPUPOOL_ADDRESS", "env:1"}}), "env:1 - - - - - - -");
}

TEST_F(ServerChoiceTest, AUserWithoutAFolderHasNoContexts) {
  const char* const home = std::getenv("HOME");
  const std::string kept = home == nullptr ? "" : home;
  ::unsetenv("HOME");
  EXPECT_EQ(Choose({}, {{"XDG_CONFIG_HOME", ""}}),
            "127.0.0.1:8001 - - - - - - -");
  EXPECT_THAT(Choose({.context = "named"}, {{"XDG_CONFIG_HOME", ""}}),
              HasSubstr("HOME"));
  if (home != nullptr) ::setenv("HOME", kept.c_str(), 1);
}

}  // namespace
}  // namespace gpupool::client
