#include "server/control/upkeep/token_requests.h"

#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

class TokenRequestsTest : public ControlTest {
 protected:
  absl::StatusOr<v1::StoredToken> Write(const v1::StoredToken& stored) {
    Answer<v1::StoredToken> answer;
    StoreToken(control(), stored, answer.callback());
    return answer.Wait();
  }
};

TEST_F(TokenRequestsTest, ANewTokenGetsAnIdAndIsOnDisk) {
  v1::StoredToken stored;
  stored.set_secret_sha256("a");
  const auto first = Write(stored);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->token().id(), 1u);
  stored.set_secret_sha256("b");
  EXPECT_EQ(Write(stored)->token().id(), 2u);
  EXPECT_EQ(store->LoadTokens()->size(), 2u);
}

TEST_F(TokenRequestsTest, AUseIsWrittenSoon) {
  v1::StoredToken stored;
  stored.set_secret_sha256("a");
  ASSERT_TRUE(Write(stored).ok());
  NoteTokenUse(control(), 1, absl::FromUnixSeconds(60));
  EXPECT_TRUE(Eventually([&] {
    return (*store->LoadTokens())[0].token().last_use_time().seconds() == 60;
  }));
}

TEST_F(TokenRequestsTest, IsUnavailableAfterTheStop) {
  loop->Stop();
  EXPECT_TRUE(absl::IsUnavailable(Write({}).status()));
  NoteTokenUse(control(), 1, absl::FromUnixSeconds(60));
}

}  // namespace
}  // namespace gpupool::server
