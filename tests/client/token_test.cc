#include "client/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/server/store/temp_dir.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TokenTest : public ::testing::Test {
 protected:
  // Returns the token of a file with this text.
  absl::StatusOr<std::string> FromFile(const std::string& text) {
    std::ofstream(file_, std::ios::binary) << text;
    return TokenOf({.token = "", .file = file_});
  }

  server::TempDir folder_;
  const std::string file_ = folder_ / "token";
};

TEST_F(TokenTest, IsTheOneWordOfItsFile) {
  EXPECT_EQ(*FromFile("gpk_x"), "gpk_x");
  EXPECT_EQ(*FromFile("  gpk_x\r\n"), "gpk_x");
  EXPECT_EQ(*TokenOf({}), "");
}

TEST_F(TokenTest, TheTokenItselfGoesBeforeTheFile) {
  EXPECT_EQ(*TokenOf({.token = "gpk_y", .file = "/nowhere"}), "gpk_y");
}

TEST_F(TokenTest, AFileWithoutATokenIsNotShown) {
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("top secret"),
        std::string("caf\xc3\xa9"), std::string("a\0b", 3),
        std::string(501, 'x')}) {
    const absl::Status status = FromFile(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(file_));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }
}

TEST_F(TokenTest, AMissingFileIsNamedWithTheRemedy) {
  const absl::Status status =
      TokenOf({.token = "", .file = folder_ / "none"}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("GPUPOOL_TOKEN_FILE"));
}

TEST(IsOnThisMachineTest, KnowsLoopbackAddresses) {
  for (const char* address : {"unix:/run/gpupool", "localhost:8001",
                              "127.0.0.1:8001", "127.1.2.3:1", "[::1]:8001"}) {
    EXPECT_TRUE(IsOnThisMachine(address)) << address;
  }
  for (const char* address :
       {"pool.example.org:8001", "10.0.0.7:8001", "127.example.org:8001",
        "0.0.0.0:8001", "[fe80::1]:8001", "localhost.example.org:8001", ""}) {
    EXPECT_FALSE(IsOnThisMachine(address)) << address;
  }
}

TEST(CheckTokenIsSafeTest, ATokenDoesNotLeaveTheMachineInTheClear) {
  ClientOptions options;
  options.address = "pool.example.org:8001";
  options.token.token = "gpk_x";
  const absl::Status refused = CheckTokenIsSafe(options);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--insecure"));
  EXPECT_THAT(std::string(refused.message()), Not(HasSubstr("gpk_x")));
  EXPECT_FALSE(Client::Create(options).ok());
  options.token.insecure = true;
  EXPECT_TRUE(CheckTokenIsSafe(options).ok());
  options.token.insecure = false;
  options.tls.ca = "ca.pem";
  EXPECT_TRUE(CheckTokenIsSafe(options).ok());
  options.tls.ca.clear();
  options.address = "127.0.0.1:8001";
  EXPECT_TRUE(CheckTokenIsSafe(options).ok());
}

}  // namespace
}  // namespace gpupool::client
