#include "server/api/services/auth_service.h"

#include <gmock/gmock.h>

#include "tests/server/api/services/token_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using AuthStub = v1::AuthService::Stub;

class AuthServiceTest : public TokenFixture {
 protected:
  void SetUp() override {
    TokenFixture::SetUp();
    stub_ = v1::AuthService::NewStub(channel_);
    admin_ = HeaderOf("", v1::ADMIN);
  }

  static v1::CreateTokenRequest NewUser() {
    v1::CreateTokenRequest request;
    request.set_name("mia");
    request.set_tenant("lab");
    request.set_role(v1::USER);
    return request;
  }

  grpc::Status Create(const v1::CreateTokenRequest& request) {
    return As(admin_).Call(*stub_, &AuthStub::CreateToken, request, &made_);
  }

  std::unique_ptr<AuthStub> stub_;
  std::string admin_;
  v1::CreateTokenResponse made_;
};

TEST_F(AuthServiceTest, ANewTokenWorksAndOnlyItsDigestIsKept) {
  ASSERT_TRUE(Create(NewUser()).ok());
  EXPECT_TRUE(IsSecret(made_.secret()));
  const auto identity = gate_.Identify("Bearer " + made_.secret());
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->tenant, "lab");
  EXPECT_EQ(identity->role, v1::USER);
  const auto stored = store_->LoadTokens();
  ASSERT_TRUE(stored.ok()) << stored.status();
  ASSERT_EQ(stored->size(), 1u);
  EXPECT_EQ((*stored)[0].secret_sha256(), DigestOf(made_.secret()));
  EXPECT_EQ((*stored)[0].ShortDebugString().find(made_.secret()),
            std::string::npos);
}

TEST_F(AuthServiceTest, ARevokedTokenEndsAtOnceAndOnDisk) {
  ASSERT_TRUE(Create(NewUser()).ok());
  v1::RevokeTokenRequest request;
  request.set_id(made_.token().id());
  v1::Token revoked;
  ASSERT_TRUE(
      As(admin_).Call(*stub_, &AuthStub::RevokeToken, request, &revoked).ok());
  EXPECT_TRUE(revoked.has_revoke_time());
  EXPECT_TRUE(absl::IsUnauthenticated(
      gate_.Identify("Bearer " + made_.secret()).status()));
  EXPECT_TRUE((*store_->LoadTokens())[0].token().has_revoke_time());
  v1::Token again;
  EXPECT_TRUE(
      As(admin_).Call(*stub_, &AuthStub::RevokeToken, request, &again).ok());
  EXPECT_EQ(again.revoke_time().seconds(), revoked.revoke_time().seconds());
  request.set_id(77);
  EXPECT_EQ(As(admin_)
                .Call(*stub_, &AuthStub::RevokeToken, request, &again)
                .error_code(),
            grpc::NOT_FOUND);
}

TEST_F(AuthServiceTest, ListsTokensWithoutSecrets) {
  ASSERT_TRUE(Create(NewUser()).ok());
  v1::ListTokensResponse list;
  ASSERT_TRUE(
      As(admin_)
          .Call(*stub_, &AuthStub::ListTokens, v1::ListTokensRequest(), &list)
          .ok());
  ASSERT_EQ(list.tokens_size(), 2);  // the admin's own, too
  EXPECT_EQ(list.tokens(0).name(), "mia");
  EXPECT_TRUE(list.tokens(1).has_last_use_time());
}

TEST_F(AuthServiceTest, RefusesTokensThatMakeNoSense) {
  v1::CreateTokenRequest request = NewUser();
  request.clear_tenant();
  EXPECT_THAT(Create(request).error_message(), HasSubstr("needs a tenant"));
  request = NewUser();
  request.clear_role();
  EXPECT_EQ(Create(request).error_code(), grpc::INVALID_ARGUMENT);
  request = NewUser();
  request.set_tenant("no/slash");
  EXPECT_EQ(Create(request).error_code(), grpc::INVALID_ARGUMENT);
  request = NewUser();
  request.mutable_expire_time()->set_seconds(1);
  EXPECT_THAT(Create(request).error_message(), HasSubstr("has passed"));
  request.mutable_expire_time()->set_seconds(INT64_MAX);
  EXPECT_THAT(Create(request).error_message(), HasSubstr("3650 days away"));
  request = NewUser();
  request.clear_tenant();
  request.set_role(v1::OPERATOR);
  EXPECT_TRUE(Create(request).ok());
}

TEST_F(AuthServiceTest, OnlyAnAdminMakesTokens) {
  EXPECT_EQ(As(HeaderOf("lab", v1::OPERATOR))
                .Call(*stub_, &AuthStub::CreateToken, NewUser(), &made_)
                .error_code(),
            grpc::PERMISSION_DENIED);
  EXPECT_EQ(As("")
                .Call(*stub_, &AuthStub::CreateToken, NewUser(), &made_)
                .error_code(),
            grpc::UNAUTHENTICATED);
}

class NoTokensTest : public ApiFixture {};

TEST_F(NoTokensTest, AServerWithoutTokensSaysHowToTurnThemOn) {
  const auto stub = v1::AuthService::NewStub(channel_);
  grpc::ClientContext context;
  v1::ListTokensResponse list;
  const grpc::Status status =
      stub->ListTokens(&context, v1::ListTokensRequest(), &list);
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("--auth tokens"));
}

}  // namespace
}  // namespace gpupool::server
