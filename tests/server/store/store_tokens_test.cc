#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "server/store/store.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

v1::StoredToken TokenWith(uint64_t id, const std::string& digest) {
  v1::StoredToken stored;
  stored.mutable_token()->set_id(id);
  stored.mutable_token()->set_tenant("lab");
  stored.mutable_token()->set_role(v1::USER);
  stored.set_secret_sha256(digest);
  return stored;
}

class StoreTokensTest : public testing::Test {
 protected:
  void Reopen() {
    store_.reset();
    auto store = Store::Open(directory_ / "gpupool.db");
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  void SetUp() override { Reopen(); }

  TempDir directory_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTokensTest, KeepsTokensByIdOverARestart) {
  const uint64_t first = store_->AllocateId(IdKind::kToken);
  const uint64_t second = store_->AllocateId(IdKind::kToken);
  ASSERT_TRUE(store_
                  ->Commit({.upsert_tokens = {TokenWith(second, "b"),
                                              TokenWith(first, "a")}})
                  .ok());
  Reopen();
  const auto tokens = store_->LoadTokens();
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_EQ(tokens->size(), 2u);
  EXPECT_EQ((*tokens)[0].secret_sha256(), "a");
  EXPECT_EQ((*tokens)[0].token().role(), v1::USER);
  EXPECT_FALSE((*tokens)[0].token().has_last_use_time());
  EXPECT_EQ((*tokens)[1].token().id(), second);
  ASSERT_TRUE(store_->Commit({.delete_tokens = {first}}).ok());
  EXPECT_EQ(store_->LoadTokens()->size(), 1u);
}

TEST_F(StoreTokensTest, AUseNeitherUndoesARevocationNorIsUndoneByIt) {
  v1::StoredToken stored = TokenWith(1, "a");
  ASSERT_TRUE(store_->Commit({.upsert_tokens = {stored}}).ok());
  ASSERT_TRUE(
      store_->Commit({.set_token_uses = {{1, absl::FromUnixSeconds(60)}}})
          .ok());
  stored.mutable_token()->mutable_revoke_time()->set_seconds(70);
  ASSERT_TRUE(store_->Commit({.upsert_tokens = {stored}}).ok());
  ASSERT_TRUE(
      store_->Commit({.set_token_uses = {{1, absl::FromUnixSeconds(120)}}})
          .ok());
  const auto tokens = store_->LoadTokens();
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_EQ(tokens->size(), 1u);
  EXPECT_EQ((*tokens)[0].token().revoke_time().seconds(), 70);
  EXPECT_EQ((*tokens)[0].token().last_use_time().seconds(), 120);
}

TEST_F(StoreTokensTest, TwoTokensHaveNoSecretInCommon) {
  EXPECT_FALSE(
      store_->Commit({.upsert_tokens = {TokenWith(1, "a"), TokenWith(2, "a")}})
          .ok());
}

}  // namespace
}  // namespace gpupool::server
