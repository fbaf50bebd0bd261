#include "server/server_access.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "server/auth/secret.h"
#include "server/store/store.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

class OpenGateTest : public ::testing::Test {
 protected:
  void Start(const std::string& auth = "tokens") {
    gate_.reset();
    store_.reset();
    store_ = *Store::Open(directory_ / "gpupool.db");
    auto gate = OpenGate(auth, directory_.path(), store_.get(),
                         [this] { return now_; });
    ASSERT_TRUE(gate.ok()) << gate.status();
    gate_ = *std::move(gate);
  }

  std::string Secret() const {
    std::string text;
    std::ifstream(directory_ / kAdminTokenFile) >> text;
    return text;
  }

  absl::StatusOr<Identity> Identify(const std::string& secret) {
    return gate_->Identify("Bearer " + secret);
  }

  TempDir directory_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  std::unique_ptr<Store> store_;
  std::unique_ptr<AccessGate> gate_;
};

TEST_F(OpenGateTest, TheFirstStartMakesAnAdminsTokenInAPrivateFile) {
  Start();
  const auto admin = Identify(Secret());
  ASSERT_TRUE(admin.ok()) << admin.status();
  EXPECT_EQ(admin->role, v1::ADMIN);
  EXPECT_EQ(
      std::filesystem::status(directory_ / kAdminTokenFile).permissions(),
      std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(OpenGateTest, LaterStartsKeepTheTokens) {
  Start();
  const std::string secret = Secret();
  Start();
  EXPECT_EQ(Secret(), secret);
  EXPECT_TRUE(Identify(secret).ok());
  EXPECT_EQ(gate_->tokens().size(), 1u);
}

TEST_F(OpenGateTest, AStartWithoutAnAdminMakesAnotherToken) {
  Start();
  const std::string first = Secret();
  v1::StoredToken row = (*store_->LoadTokens())[0];
  row.mutable_token()->mutable_revoke_time()->set_seconds(
      absl::ToUnixSeconds(now_));
  ASSERT_TRUE(store_->Commit({.upsert_tokens = {row}}).ok());
  Start();
  EXPECT_NE(Secret(), first);
  EXPECT_TRUE(absl::IsUnauthenticated(Identify(first).status()));
  EXPECT_TRUE(Identify(Secret()).ok());
}

TEST_F(OpenGateTest, ForgetsTokensThatEndedLongAgo) {
  Start();
  v1::StoredToken row;
  row.mutable_token()->set_id(store_->AllocateId(IdKind::kToken));
  row.mutable_token()->set_role(v1::VIEWER);
  row.mutable_token()->mutable_expire_time()->set_seconds(
      absl::ToUnixSeconds(now_));
  row.set_secret_sha256(DigestOf("a"));
  ASSERT_TRUE(store_->Commit({.upsert_tokens = {row}}).ok());
  now_ += absl::Hours(24 * 29);
  Start();
  EXPECT_EQ(gate_->tokens().size(), 2u);
  now_ += absl::Hours(24 * 2);
  Start();
  EXPECT_EQ(gate_->tokens().size(), 1u);
  EXPECT_EQ(store_->LoadTokens()->size(), 1u);
}

TEST_F(OpenGateTest, WithoutTokensNothingIsMade) {
  Start("none");
  EXPECT_FALSE(gate_->wants_tokens());
  EXPECT_FALSE(std::filesystem::exists(directory_ / kAdminTokenFile));
  EXPECT_TRUE(store_->LoadTokens()->empty());
}

}  // namespace
}  // namespace gpupool::server
