#include "server/auth/access_gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/auth/secret.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
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
  AccessGate gate(FreeCallers::kNone, Now);
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
  AccessGate gate(FreeCallers::kNone, Now);
  const auto refused = gate.Admit(kDrain, HeaderOf(&gate, v1::USER));
  EXPECT_EQ(std::string(refused.status().message()),
            "/gpupool.v1.AdminService/Drain needs the role operator; token 2 "
            "has the role user");
}

TEST(AccessGateTest, WithoutATokenOnlyOpenMethodsAreCalled) {
  AccessGate gate(FreeCallers::kNone, Now);
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
  AccessGate gate(FreeCallers::kNone, Now);
  EXPECT_TRUE(absl::IsPermissionDenied(
      gate.Admit("/gpupool.v1.JobService/Other", HeaderOf(&gate, v1::ADMIN))
          .status()));
  EXPECT_TRUE(absl::IsUnauthenticated(
      gate.Admit("/gpupool.v1.JobService/Other", "").status()));
}

TEST(AccessGateTest, WithoutTokensEverybodyIsAnAdmin) {
  AccessGate gate(FreeCallers::kAll, Now);
  const auto caller = gate.Admit("/gpupool.v1.JobService/Other", "nonsense");
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->role, v1::ADMIN);
  EXPECT_FALSE(caller->is_bound());
}

TEST(AccessGateTest, PortsAskForUsersIfCallsAreCheckedOrOnRequest) {
  EXPECT_TRUE(AccessGate(FreeCallers::kNone, absl::Now).asks_users());
  AccessGate gate(FreeCallers::kAll, absl::Now);
  EXPECT_FALSE(gate.asks_users());
  gate.AskUsers();
  EXPECT_TRUE(gate.asks_users());
  EXPECT_FALSE(gate.checks_calls());
}

TEST(AccessGateTest, OverTheSocketNobodyNeedsAToken) {
  AccessGate gate(FreeCallers::kNone, Now);
  const auto caller = gate.Admit(kTokens, "", {.door = Door::kSocket});
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->role, v1::ADMIN);
  EXPECT_EQ(caller->name, "local user");
  EXPECT_FALSE(caller->is_bound());
  EXPECT_TRUE(absl::IsPermissionDenied(
      gate.Admit("/gpupool.v1.JobService/Other", "", {.door = Door::kSocket})
          .status()));
}

TEST(AccessGateTest, OverTheSocketATokenSaysWhoCalls) {
  AccessGate gate(FreeCallers::kNone, Now);
  const std::string user = HeaderOf(&gate, v1::USER);
  EXPECT_TRUE(gate.Admit(kSubmit, user, {.door = Door::kSocket}).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(
      gate.Admit(kDrain, user, {.door = Door::kSocket}).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(
      gate.Identify("Bearer gpk_x", {.door = Door::kSocket}).status()));
}

// A caller over TCP, and whether a gate lets it in without a token.
struct FreeCase {
  const char* what;
  Caller caller;
  bool own_users;
  bool certificates;
  bool none;
};

std::vector<FreeCase> FreeCases() {
  const uid_t own = geteuid();
  return {
      {"own user", {.user = {.uid = own}}, true, true, false},
      {"root", {.user = {.uid = 0}}, true, true, false},
      {"another user", {.user = {.uid = own + 1}}, false, true, false},
      {"nobody", {.user = {.uid = 65534}}, own == 65534, true, false},
      {"unknown user", {}, false, true, false},
      {"other machine", {.user = {.other_machine = true}}, false, true, false},
      {"socket", {.door = Door::kSocket}, true, true, true},
      {"let in before", {.admitted = true}, true, true, false},
  };
}

TEST(AccessGateTest, WhoNeedsNoTokenDependsOnTheUserAndTheDoor) {
  for (const FreeCase& one : FreeCases()) {
    for (const auto& [free, may] :
         {std::pair(FreeCallers::kOwnUsers, one.own_users),
          std::pair(FreeCallers::kCertificates, one.certificates),
          std::pair(FreeCallers::kNone, one.none),
          std::pair(FreeCallers::kAll, true)}) {
      AccessGate gate(free, Now);
      const auto caller = gate.Admit(kTokens, "", one.caller);
      EXPECT_EQ(caller.ok(), may) << one.what << " " << caller.status();
      if (caller.ok()) {
        EXPECT_EQ(caller->role, v1::ADMIN) << one.what;
        EXPECT_FALSE(caller->is_bound()) << one.what;
      } else {
        EXPECT_TRUE(absl::IsUnauthenticated(caller.status())) << one.what;
      }
    }
  }
}

TEST(AccessGateTest, ATokenCountsForEveryCaller) {
  for (const FreeCase& one : FreeCases()) {
    for (const FreeCallers free :
         {FreeCallers::kOwnUsers, FreeCallers::kCertificates,
          FreeCallers::kNone}) {
      AccessGate gate(free, Now);
      const std::string user = HeaderOf(&gate, v1::USER);
      EXPECT_TRUE(gate.Admit(kSubmit, user, one.caller).ok()) << one.what;
      EXPECT_TRUE(absl::IsPermissionDenied(
          gate.Admit(kDrain, user, one.caller).status()))
          << one.what;
      const std::string unknown =
          absl::StrCat("Bearer gpk_", std::string(43, 'B'));
      EXPECT_TRUE(absl::IsUnauthenticated(
          gate.Admit(kRead, unknown, one.caller).status()))
          << one.what;
    }
  }
}

TEST(AccessGateTest, AFreeCallerMaySendHeadersThatAreNoTokens) {
  AccessGate gate(FreeCallers::kOwnUsers, Now);
  const Caller own{.user = {.uid = geteuid()}};
  const Caller other{.user = {.uid = geteuid() + 1}};
  for (const char* header : {"Basic YTpi", "Bearer x", "several headers"}) {
    EXPECT_TRUE(gate.Admit(kDrain, header, own).ok()) << header;
    EXPECT_TRUE(
        absl::IsUnauthenticated(gate.Admit(kDrain, header, other).status()))
        << header;
  }
}

TEST(AccessGateTest, AnEmptyTokenIsRefusedByEveryDoor) {
  for (const FreeCase& one : FreeCases()) {
    for (const FreeCallers free :
         {FreeCallers::kOwnUsers, FreeCallers::kCertificates,
          FreeCallers::kNone}) {
      AccessGate gate(free, Now);
      for (const char* header : {kEmptyAuthorization, "Bearer ", "bearer"}) {
        const auto caller = gate.Admit(kRead, header, one.caller);
        EXPECT_TRUE(absl::IsUnauthenticated(caller.status())) << one.what;
        EXPECT_THAT(std::string(caller.status().message()),
                    HasSubstr("has no token"));
      }
    }
  }
}

TEST(AccessGateTest, AFreeCallerLearnsFromTheHandlerThatThereIsNoSuchMethod) {
  AccessGate gate(FreeCallers::kOwnUsers, Now);
  const char method[] = "/gpupool.v1.JobService/Other";
  EXPECT_TRUE(gate.Admit(method, "", {.user = {.uid = geteuid()}}).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(gate.Admit(method, "").status()));
}

TEST(AccessGateTest, ARefusalSaysWhoWasSeenAndWhatToDo) {
  AccessGate gate(FreeCallers::kOwnUsers, Now);
  const auto text = [&](const PeerUser& user) {
    return std::string(
        gate.Admit(kRead, "", {.user = user}).status().message());
  };
  const uid_t other = geteuid() + 1;
  EXPECT_THAT(text({.uid = other}),
              AllOf(HasSubstr(absl::StrCat("from uid ", other, ":")),
                    HasSubstr("root may call"), HasSubstr("--token-file"),
                    HasSubstr("gpupool tokens create")));
  EXPECT_THAT(text({.other_machine = true}),
              HasSubstr("callers on other machines"));
  EXPECT_THAT(text({}), HasSubstr("whom the system does not name"));
}

TEST(AccessGateTest, OpenMethodsAreOpenToEveryUser) {
  AccessGate gate(FreeCallers::kOwnUsers, Now);
  for (const char* method : {"/grpc.health.v1.Health/Check",
                             "/inference.GRPCInferenceService/ServerLive",
                             "/inference.GRPCInferenceService/ServerReady"}) {
    EXPECT_TRUE(gate.Admit(method, "", {.user = {.uid = 65534}}).ok())
        << method;
  }
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
