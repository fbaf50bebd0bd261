#include "client/files/token_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WriteTable(const std::string& text) {
  const std::string path =
      ::testing::TempDir() + "/token_table_test_" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(TokenTableTest, EachLineIsAToken) {
  for (const char* text : {"<unk>\nthe\nca\xC3\xB1on\n",
                           "\xEF\xBB\xBF<unk>\r\nthe\r\nca\xC3\xB1on"}) {
    const auto tokens = ReadTokenTable(WriteTable(text));
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    EXPECT_THAT(*tokens, ElementsAre("<unk>", "the", "ca\xC3\xB1on"));
  }
}

TEST(TokenTableTest, ErrorsNameFileAndLine) {
  const auto error = [](const std::string& text) {
    const auto tokens = ReadTokenTable(WriteTable(text));
    EXPECT_TRUE(absl::IsInvalidArgument(tokens.status())) << tokens.status();
    return std::string(tokens.status().message());
  };
  EXPECT_THAT(error(""), HasSubstr("line 1 is empty; write one token a line"));
  EXPECT_THAT(error("a\n\nb\n"), HasSubstr("ErrorsNameFileAndLine: line 2 is"));
  EXPECT_THAT(error("a\nb c\n"), HasSubstr("line 2 has a blank"));
  EXPECT_THAT(error("<unk>\n\xFF\n"), HasSubstr(": line 2 is not UTF-8"));
  EXPECT_THAT(error("\xC3\n"), HasSubstr(": line 1 is not UTF-8"));
  EXPECT_THAT(error(std::string("a\nb\0c\n", 6)),
              HasSubstr("line 2 has a byte of zero, which no text has"));
  EXPECT_TRUE(absl::IsNotFound(ReadTokenTable("/nowhere/t").status()));
}

}  // namespace
}  // namespace gpupool::client
