// gpupool tokens, and the token that every verb sends.
#include <nlohmann/json.hpp>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

using TokensTest = CommandTest;

TEST_F(TokensTest, CreatePrintsTheSecretAloneOnStandardOutput) {
  ASSERT_EQ(Run({"tokens", "create", "--tenant", "lab", "--role", "user",
                 "--expires", "30d", "--name", "mia"}),
            0)
      << err();
  EXPECT_EQ(out(), "gpk_secret\n");
  EXPECT_THAT(err(), HasSubstr("token 3, role user of lab, expires 2"));
  absl::MutexLock lock(&server_.state.mutex);
  const v1::CreateTokenRequest& request = server_.state.token_request;
  EXPECT_EQ(request.tenant(), "lab");
  EXPECT_EQ(request.role(), v1::USER);
  EXPECT_EQ(request.name(), "mia");
  EXPECT_TRUE(request.has_expire_time());
}

TEST_F(TokensTest, ATokenMayNeverExpire) {
  ASSERT_EQ(Run({"tokens", "create", "--role", "admin", "--expires", "never"}),
            0);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_FALSE(server_.state.token_request.has_expire_time());
  EXPECT_EQ(server_.state.token_request.role(), v1::ADMIN);
}

TEST_F(TokensTest, WrongArgumentsAreUsageErrors) {
  EXPECT_EQ(Run({"tokens", "create", "--role", "boss"}), 2);
  EXPECT_EQ(Run({"tokens", "create"}), 2);
  EXPECT_EQ(Run({"tokens", "create", "--role", "user", "--expires", "soon"}),
            2);
  EXPECT_EQ(Run({"tokens", "revoke"}), 2);
}

TEST_F(TokensTest, ListShowsThemAndRevokeEndsOne) {
  ASSERT_EQ(Run({"tokens", "list", "--no-headers"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("3\tmia\tlab\tuser\t"));
  EXPECT_THAT(out(), HasSubstr("\tnever\t-\t-\n"));
  ASSERT_EQ(Run({"tokens", "revoke", "3"}), 0) << err();
  EXPECT_EQ(out(), "token 3 is revoked\n");
  EXPECT_EQ(Run({"tokens", "revoke", "4"}), 3);
}

TEST_F(TokensTest, EveryCallHasTheTokenOfTheFile) {
  const std::string file = WriteFile("token", "gpk_mine\n");
  ASSERT_EQ(Run({"tokens", "list", "--token-file", file}), 0) << err();
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.authorization, "Bearer gpk_mine");
}

TEST_F(TokensTest, AMissingFileOfATokenIsAUsageError) {
  EXPECT_EQ(Run({"tokens", "list", "--token-file", "/nowhere/token"}), 2);
  EXPECT_THAT(err(), HasSubstr("/nowhere/token"));
}

}  // namespace
}  // namespace gpupool::client
