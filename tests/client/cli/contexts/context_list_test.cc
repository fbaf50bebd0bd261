#include "client/cli/contexts/context_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace gpupool::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string ParseError(const std::string& text) {
  const auto list = ParseContexts(text, "c.yaml");
  EXPECT_EQ(list.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(list.status().message());
}

TEST(ContextListTest, IsReadAsItWasWritten) {
  ContextList list{.in_use = "lab"};
  list.contexts["lab"] = {
      .address = "unix:/run/a: \"b\" #c",
      .tls = {.ca = "/ca ä.pem", .certificate = "/c\\d.pem", .key = "/k'.pem"},
      .token_file = "/t",
      .insecure = true};
  list.contexts["1"] = {.address = "[::1]:8001"};
  list.contexts["yes"] = {.address = "true:1"};
  const auto read = ParseContexts(ContextsText(list), "c.yaml");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->in_use, "lab");
  EXPECT_EQ(read->contexts, list.contexts);
}

TEST(ContextListTest, AnEmptyDocumentIsAnEmptyList) {
  for (const char* text : {"", "# nothing\n", "contexts:\n", "contexts: {}"}) {
    const auto list = ParseContexts(text, "c.yaml");
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_TRUE(list->contexts.empty());
  }
  EXPECT_TRUE(ParseContexts(ContextsText({}), "c.yaml").ok());
}

TEST(ContextListTest, AnErrorNamesItsLine) {
  const struct {
    const char* text;
    const char* place;
    const char* reason;
  } kCases[] = {
      {"in_use: a\ncontexts: [", "c.yaml:2:", "end of"},
      {"- a", "c.yaml:1:1: ", "needs a mapping"},
      {"contexts:\n  a:\n    adress: h:1\n",
       "c.yaml:3:5: ", "did you mean 'address'?"},
      {"contexts:\n  a:\n    address: h:1\n    address: h:2\n",
       "c.yaml:4:5: ", "'address' is given twice"},
      {"contexts:\n  a:\n    address: [h]\n",
       "c.yaml:3:5: ", "'address' needs one text"},
      {"contexts:\n  a:\n    ca: /ca\n",
       "c.yaml:2:3: ", "'address' is missing"},
      {"contexts:\n  a:\n    address: h:1\n    ca: ca.pem\n",
       "c.yaml:4:9: ", "begins with /"},
      {"contexts:\n  a:\n    address: unix:s\n",
       "c.yaml:3:14: ", "begins with /"},
      {"contexts:\n  a:\n    address: \"h\\e[2J\"\n",
       "c.yaml:3:14: ", "control character"},
      {"contexts:\n  a:\n    address: h:1\n    insecure: maybe\n",
       "c.yaml:4:15: ", "true or false"},
      {"contexts:\n  a b:\n    address: h:1\n",
       "c.yaml:2:3: ", "cannot name a context"},
      {"contexts: {}\n---\ncontexts: {}\n", "c.yaml:3:", "second document"},
  };
  for (const auto& one : kCases) {
    EXPECT_THAT(ParseError(one.text),
                AllOf(StartsWith(one.place), HasSubstr(one.reason)))
        << one.text;
  }
}

TEST(ContextListTest, ATokenIsRefusedAndNotShown) {
  EXPECT_THAT(
      ParseError("contexts:\n  a:\n    address: h:1\n    token: gpk_secret\n"),
      AllOf(StartsWith("c.yaml:4:5: "), HasSubstr("'token_file'"),
            Not(HasSubstr("gpk_secret"))));
}

TEST(ContextListTest, HasNoMoreContextsThanTheLimit) {
  std::string text = "contexts:\n";
  for (size_t i = 0; i < kMostContexts; ++i) {
    absl::StrAppend(&text, "  c", i, ": {address: h}\n");
  }
  EXPECT_TRUE(ParseContexts(text, "c.yaml").ok());
  absl::StrAppend(&text, "  more: {address: h}\n");
  EXPECT_THAT(ParseError(text), HasSubstr("257 contexts, over 256"));
}

TEST(CheckContextNameTest, TakesOneShortWord) {
  for (const char* name : {"a", "lab-2", "a.b_c", "9"}) {
    EXPECT_TRUE(CheckContextName(name).ok()) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("-a"), std::string("a b"),
        std::string("a/b"), std::string("\xC3\xA4"), std::string(65, 'a')}) {
    EXPECT_FALSE(CheckContextName(name).ok()) << name;
  }
  EXPECT_TRUE(CheckContextName(std::string(64, 'a')).ok());
}

TEST(CheckContextTest, NamesTheFieldThatIsWrong) {
  EXPECT_THAT(CheckContext({}).message(), HasSubstr("'address'"));
  EXPECT_THAT(CheckContext({.address = std::string(5000, 'h')}).message(),
              HasSubstr("'address' has 5000 bytes, over 4096"));
  EXPECT_THAT(
      CheckContext({.address = "h:1", .tls = {.ca = "/a", .certificate = "/c"}})
          .message(),
      HasSubstr("'client_key' is missing"));
  EXPECT_THAT(CheckContext(
                  {.address = "h:1", .tls = {.certificate = "/c", .key = "/k"}})
                  .message(),
              HasSubstr("'ca' is missing"));
  EXPECT_TRUE(CheckContext({.address = "h:1", .tls = {.ca = "/a"}}).ok());
}

TEST(FindContextTest, AnUnknownNameGetsTheNearestAndTheKnownOnes) {
  ContextList list;
  EXPECT_THAT(FindContext(list, "lab", "c.yaml").status().message(),
              HasSubstr("gpupool context add"));
  list.contexts["lab"] = {.address = "a:1"};
  list.contexts["prod"] = {.address = "b:1"};
  const absl::Status status = FindContext(list, "lba", "c.yaml").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "c.yaml has no context 'lba'; did you mean 'lab'? (known: lab, "
            "prod)");
  for (int i = 0; i < 30; ++i) {
    list.contexts[absl::StrCat("z", i)] = {.address = "a:1"};
  }
  EXPECT_THAT(FindContext(list, "none", "c.yaml").status().message(),
              HasSubstr(" and 12 more)"));
  EXPECT_EQ(FindContext(list, "prod", "c.yaml")->address, "b:1");
}

}  // namespace
}  // namespace gpupool::client
