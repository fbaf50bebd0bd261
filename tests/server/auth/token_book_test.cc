#include "server/auth/token_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/auth/secret.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

v1::StoredToken Stored(uint64_t id, const std::string& secret) {
  v1::StoredToken stored;
  stored.mutable_token()->set_id(id);
  stored.mutable_token()->set_name("mia");
  stored.mutable_token()->set_tenant("lab");
  stored.mutable_token()->set_role(v1::USER);
  stored.set_secret_sha256(DigestOf(secret));
  return stored;
}

class TokenBookTest : public ::testing::Test {
 protected:
  std::string Refusal(const std::string& secret, absl::Time now = kNow) {
    const auto found = book_.Find(secret, now);
    EXPECT_TRUE(absl::IsUnauthenticated(found.status())) << found.status();
    return std::string(found.status().message());
  }

  const std::string secret_ = "gpk_" + std::string(43, 'A');
  TokenBook book_;
};

TEST_F(TokenBookTest, FindsTheOwnerOfASecret) {
  book_.Put(Stored(7, secret_));
  const auto found = book_.Find(secret_, kNow);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->token, 7u);
  EXPECT_EQ(found->name, "mia");
  EXPECT_EQ(found->tenant, "lab");
  EXPECT_EQ(found->role, v1::USER);
  EXPECT_TRUE(found->is_bound());
}

TEST_F(TokenBookTest, UnknownRevokedAndMalformedSecretsGetTheSameWords) {
  const std::string unknown = Refusal(secret_);
  EXPECT_EQ(Refusal("gpk_short"), unknown);
  EXPECT_EQ(Refusal(""), unknown);
  v1::StoredToken stored = Stored(7, secret_);
  stored.mutable_token()->mutable_revoke_time()->set_seconds(1);
  book_.Put(stored);
  EXPECT_EQ(Refusal(secret_), unknown);
}

TEST_F(TokenBookTest, ARoleThatThisBuildDoesNotKnowIsNone) {
  v1::StoredToken stored = Stored(7, secret_);
  stored.mutable_token()->set_role(static_cast<v1::Role>(v1::Role_MAX + 1));
  book_.Put(stored);
  Refusal(secret_);
}

TEST_F(TokenBookTest, ATokenEndsAtItsTime) {
  v1::StoredToken stored = Stored(7, secret_);
  stored.mutable_token()->mutable_expire_time()->set_seconds(
      absl::ToUnixSeconds(kNow));
  book_.Put(stored);
  EXPECT_TRUE(book_.Find(secret_, kNow - absl::Seconds(1)).ok());
  EXPECT_THAT(Refusal(secret_, kNow), HasSubstr("token 7 expired at"));
}

TEST_F(TokenBookTest, ANewerRowRevokesATokenAtOnceAndKeepsItsUse) {
  book_.Put(Stored(7, secret_));
  ASSERT_TRUE(book_.Find(secret_, kNow).ok());
  auto stored = book_.Get(7);
  ASSERT_TRUE(stored.ok()) << stored.status();
  stored->mutable_token()->mutable_revoke_time()->set_seconds(1);
  book_.Put(*stored);
  Refusal(secret_);
  ASSERT_EQ(book_.List().size(), 1u);
  EXPECT_EQ(book_.List()[0].last_use_time().seconds(),
            absl::ToUnixSeconds(kNow));
}

TEST_F(TokenBookTest, NotesAUseAtMostOnceAMinute) {
  std::vector<std::pair<uint64_t, absl::Time>> notes;
  book_.OnUse(
      [&](uint64_t id, absl::Time time) { notes.emplace_back(id, time); });
  book_.Put(Stored(7, secret_));
  for (const int seconds : {0, 1, 59, 60, 61}) {
    ASSERT_TRUE(book_.Find(secret_, kNow + absl::Seconds(seconds)).ok());
  }
  EXPECT_EQ(notes, (std::vector<std::pair<uint64_t, absl::Time>>{
                       {7, kNow}, {7, kNow + absl::Minutes(1)}}));
}

TEST_F(TokenBookTest, ARefusedSecretIsNoUse) {
  int notes = 0;
  book_.OnUse([&](uint64_t, absl::Time) { ++notes; });
  Refusal(secret_);
  EXPECT_EQ(notes, 0);
}

TEST_F(TokenBookTest, ListsTokensByIdWithTheUsesOfTheStore) {
  v1::StoredToken second = Stored(2, "gpk_b");
  second.mutable_token()->mutable_last_use_time()->set_seconds(60);
  book_.Put(second);
  book_.Put(Stored(1, "gpk_a"));
  const std::vector<v1::Token> tokens = book_.List();
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(book_.size(), 2u);
  EXPECT_EQ(tokens[0].id(), 1u);
  EXPECT_FALSE(tokens[0].has_last_use_time());
  EXPECT_EQ(tokens[1].last_use_time().seconds(), 60);
  EXPECT_THAT(std::string(book_.Get(3).status().message()),
              HasSubstr("there is no token 3"));
}

}  // namespace
}  // namespace gpupool::server
