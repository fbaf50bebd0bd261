#include "server/auth/call_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/audit_check.h"
#include "server/auth/access_gate.h"
#include "server/auth/secret.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Time NowOfRecords() { return absl::FromUnixSeconds(1'700'000'000); }

// Lets the gate know a token, and returns the header of its owner.
std::string HeaderOfUser(AccessGate* gate) {
  const std::string secret = absl::StrCat("gpk_", std::string(43, 'A'));
  v1::StoredToken stored;
  stored.mutable_token()->set_id(3);
  stored.mutable_token()->set_name("mia");
  stored.mutable_token()->set_tenant("lab");
  stored.mutable_token()->set_role(v1::USER);
  stored.set_secret_sha256(DigestOf(secret));
  gate->tokens().Put(stored);
  return absl::StrCat("Bearer ", secret);
}

TEST(CallRecordTest, ATokenIsNamedWithoutItsSecret) {
  AccessGate gate(FreeCallers::kNone, NowOfRecords);
  const audit::Record record = RecordOf(gate, HeaderOfUser(&gate), {});
  EXPECT_EQ(record.identity, "token");
  EXPECT_EQ(record.token, 3u);
  EXPECT_EQ(record.name, "mia");
  EXPECT_EQ(record.tenant, "lab");
  EXPECT_EQ(record.role, "user");
}

TEST(CallRecordTest, OthersAreUnknownOrLocal) {
  AccessGate strict(FreeCallers::kNone, NowOfRecords);
  EXPECT_EQ(RecordOf(strict, "Bearer x", {}).identity, "unknown");
  EXPECT_EQ(RecordOf(strict, "", {}).identity, "unknown");
  EXPECT_EQ(RecordOf(strict, "Bearer x", {.door = Door::kSocket}).identity,
            "unknown");
  AccessGate open(FreeCallers::kAll, NowOfRecords);
  EXPECT_EQ(RecordOf(open, "Bearer x", {}).identity, "local");
}

TEST(CallRecordTest, TheSocketIsLocalUnlessThereIsAToken) {
  AccessGate gate(FreeCallers::kNone, NowOfRecords);
  const audit::Record local = RecordOf(gate, "", {.door = Door::kSocket});
  EXPECT_EQ(local.identity, "local");
  EXPECT_EQ(local.name, "local user");
  EXPECT_EQ(local.role, "admin");
  EXPECT_EQ(local.token, 0u);
  const audit::Record user =
      RecordOf(gate, HeaderOfUser(&gate), {.door = Door::kSocket});
  EXPECT_EQ(user.identity, "token");
  EXPECT_EQ(user.role, "user");
}

TEST(CallRecordTest, TheUidIsNotedWhereItIsKnown) {
  AccessGate gate(FreeCallers::kOwnUsers, NowOfRecords);
  const audit::Record denied = RecordOf(
      gate, "", {.user = {.uid = geteuid() + 1}, .peer = "http:127.0.0.1"});
  EXPECT_EQ(denied.identity, "unknown");
  EXPECT_EQ(denied.uid, absl::StrCat(geteuid() + 1));
  EXPECT_EQ(denied.peer, "http:127.0.0.1");
  const audit::Record own = RecordOf(gate, "", {.user = {.uid = geteuid()}});
  EXPECT_EQ(own.identity, "local");
  EXPECT_EQ(own.uid, absl::StrCat(geteuid()));
  EXPECT_EQ(RecordOf(gate, "", {.door = Door::kSocket}).uid, "");
}

TEST(CallRecordTest, TheOutcomeSaysWhetherACallWasDenied) {
  audit::Record record;
  SetOutcome(absl::StatusCode::kNotFound, &record);
  EXPECT_EQ(record.event, "call");
  EXPECT_EQ(record.outcome, "NOT_FOUND");
  SetOutcome(absl::StatusCode::kPermissionDenied, &record);
  EXPECT_EQ(record.event, "denied");
}

TEST(CallRecordTest, TheGateNotesWhatItDeniesAndNothingElse) {
  const TempDir folder;
  AccessGate gate(FreeCallers::kNone, NowOfRecords);
  auto log = audit::AuditLog::Open(
      {.files = {.folder = folder / "audit"}, .now = NowOfRecords});
  ASSERT_TRUE(log.ok()) << log.status();
  gate.KeepRecords(*std::move(log));
  const std::string user = HeaderOfUser(&gate);
  EXPECT_TRUE(gate.Admit("/gpupool.v1.JobService/SubmitJob", user,
                         {.peer = "ipv4:1.2.3.4:5"})
                  .ok());
  EXPECT_FALSE(gate.Admit("/gpupool.v1.AdminService/Drain", user,
                          {.peer = "ipv4:1.2.3.4:5"})
                   .ok());
  ASSERT_TRUE(gate.log()->Flush().ok());
  const auto lines = audit::LastLines(folder / "audit", 10);
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 2u);  // with the start
  EXPECT_THAT(
      lines->back(),
      AllOf(HasSubstr("\"event\":\"denied\""), HasSubstr("\"name\":\"mia\""),
            HasSubstr("\"peer\":\"ipv4:1.2.3.4:5\""),
            HasSubstr("/gpupool.v1.AdminService/Drain"),
            HasSubstr("\"outcome\":\"PERMISSION_DENIED\"")));
}

}  // namespace
}  // namespace gpupool::server
