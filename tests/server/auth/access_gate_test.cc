#include "server/auth/access_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/auth/secret.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

constexpr char kRead[] = "/gpupool.v1.JobService/GetJob";
constexpr char kSubmit[] = "/gpupool.v1.JobService/SubmitJob";
constexpr char kDrain[] = "/gpupool.v1.AdminService/Drain";
constexpr char kTokens[] = "/gpupool.v1.AuthService/ListTokens";

absl::Time Now() { return absl::FromUnixSeconds(1'700'000'000); }

// Returns a secret of the role, and lets the gate know it.
std::string HeaderOf(AccessGate* gate, v1::Role role) {
  const std::string secret =
      absl::StrCat("gpk_", std::string(42, 'A'), static_cast<int>(role));
  v1::StoredToken stored;
  stored.mutable_token()->set_id(static_cast<uint64_t>(role));
  stored.mutable_token()->set_tenant("lab");
  stored.mutable_token()->set_role(role);
  stored.set_secret_sha256(DigestOf(secret));
  gate->tokens().Put(stored);
  return absl::StrCat("Bearer ", secret);
}

TEST(AccessGateTest, EachRoleMayDoWhatThoseBeforeItMay) {
  AccessGate gate(true, Now);
  const std::vector<const char*> methods = {kRead, kSubmit, kDrain, kTokens};
  for (int role = v1::VIEWER; role <= v1::ADMIN; ++role) {
    const std::string header = HeaderOf(&gate, static_cast<v1::Role>(role));
    for (int i = 0; i < 4; ++i) {
      const auto admitted = gate.Admit(methods[i], header);
      if (i < role) {
        EXPECT_TRUE(admitted.ok()) << methods[i] << " " << admitted.status();
      } else {
        EXPECT_TRUE(absl::IsPermissionDenied(admitted.status())) << methods[i];
      }
    }
  }
}

TEST(AccessGateTest, ARefusalSaysWhichRoleIsNeeded) {
  AccessGate gate(true, Now);
  const auto refused = gate.Admit(kDrain, HeaderOf(&gate, v1::USER));
  EXPECT_EQ(std::string(refused.status().message()),
            "/gpupool.v1.AdminService/Drain needs the role operator; token 2 "
            "has the role user");
}

TEST(AccessGateTest, WithoutATokenOnlyOpenMethodsAreCalled) {
  AccessGate gate(true, Now);
  EXPECT_TRUE(gate.Admit("/grpc.health.v1.Health/Check", "").ok());
  EXPECT_TRUE(
      gate.Admit("/inference.GRPCInferenceService/ServerReady", "nonsense")
          .ok());
  for (const char* header : {"", "nonsense", "Basic YTpi", "Bearer gpk_x"}) {
    EXPECT_TRUE(absl::IsUnauthenticated(gate.Admit(kRead, header).status()))
        << header;
  }
  EXPECT_THAT(std::string(gate.Admit(kRead, "").status().message()),
              HasSubstr("--token-file"));
}

TEST(AccessGateTest, NobodyMayCallAMethodThatIsNotInTheTable) {
  AccessGate gate(true, Now);
  EXPECT_TRUE(absl::IsPermissionDenied(
      gate.Admit("/gpupool.v1.JobService/Other", HeaderOf(&gate, v1::ADMIN))
          .status()));
  EXPECT_TRUE(absl::IsUnauthenticated(
      gate.Admit("/gpupool.v1.JobService/Other", "").status()));
}

TEST(AccessGateTest, WithoutTokensEverybodyIsAnAdmin) {
  AccessGate gate(false, Now);
  const auto caller = gate.Admit("/gpupool.v1.JobService/Other", "nonsense");
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->role, v1::ADMIN);
  EXPECT_FALSE(caller->is_bound());
}

TEST(AccessGateTest, OverTheSocketNobodyNeedsAToken) {
  AccessGate gate(true, Now);
  const auto caller = gate.Admit(kTokens, "", Door::kSocket);
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->role, v1::ADMIN);
  EXPECT_EQ(caller->name, "local user");
  EXPECT_FALSE(caller->is_bound());
  EXPECT_TRUE(absl::IsPermissionDenied(
      gate.Admit("/gpupool.v1.JobService/Other", "", Door::kSocket).status()));
}

TEST(AccessGateTest, OverTheSocketATokenSaysWhoCalls) {
  AccessGate gate(true, Now);
  const std::string user = HeaderOf(&gate, v1::USER);
  EXPECT_TRUE(gate.Admit(kSubmit, user, Door::kSocket).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(
      gate.Admit(kDrain, user, Door::kSocket).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(
      gate.Identify("Bearer gpk_x", Door::kSocket).status()));
}

TEST(AccessGateTest, ATenantComesFromTheToken) {
  const Identity user{.token = 1, .name = "", .tenant = "a", .role = v1::USER};
  std::string tenant;
  EXPECT_TRUE(AdoptTenant(user, &tenant).ok());
  EXPECT_EQ(tenant, "a");
  EXPECT_TRUE(AdoptTenant(user, &tenant).ok());
  tenant = "b";
  EXPECT_TRUE(absl::IsPermissionDenied(AdoptTenant(user, &tenant)));
  EXPECT_FALSE(MaySee(user, "b"));
  EXPECT_FALSE(MaySee(user, "a.part"));
  EXPECT_TRUE(MaySee(user, "a"));
}

TEST(AccessGateTest, AnOperatorNamesAnyTenant) {
  const Identity one{
      .token = 1, .name = "", .tenant = "", .role = v1::OPERATOR};
  std::string tenant = "b";
  EXPECT_TRUE(AdoptTenant(one, &tenant).ok());
  EXPECT_EQ(tenant, "b");
  EXPECT_TRUE(MaySee(one, "b"));
  tenant.clear();
  EXPECT_TRUE(AdoptTenant(one, &tenant).ok());
  EXPECT_EQ(tenant, "");
}

}  // namespace
}  // namespace gpupool::server
