// gpupool admin audit.
#include <deque>
#include <filesystem>
#include <fstream>

#include "audit/audit_appender.h"
#include "audit/audit_folder.h"
#include "tests/client/cli/command_test_base.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class AdminAuditTest : public CommandTest {
 protected:
  // Makes a log of three records in a state folder.
  void SetUp() override {
    auto appender = audit::AuditAppender::Open({.folder = folder_});
    ASSERT_TRUE(appender.ok()) << appender.status();
    std::deque<audit::Record> records(3);
    ASSERT_TRUE((*appender)->Append(&records).ok());
  }

  server::TempDir state_;
  const std::string folder_ = state_ / "audit";
  const std::string file_ = audit::PathOf(folder_, 1);
};

TEST_F(AdminAuditTest, AWholeLogIsVerifiedInEitherFolder) {
  for (const std::string& folder : {state_.path(), folder_}) {
    ASSERT_EQ(Run({"admin", "audit", "verify", folder}), 0) << err();
    EXPECT_THAT(out(), AllOf(HasSubstr("3 records from sequence 1 to 3"),
                             HasSubstr("last digest ")));
  }
}

TEST_F(AdminAuditTest, ADigestThatWasShownIsFoundAgain) {
  ASSERT_EQ(Run({"admin", "audit", "verify", folder_}), 0);
  const std::string shown = out();
  const std::string digest = shown.substr(shown.size() - 65, 64);
  EXPECT_EQ(Run({"admin", "audit", "verify", folder_, "--holds", digest}), 0)
      << err();
  EXPECT_EQ(Run({"admin", "audit", "verify", folder_, "--holds", "0"}), 3);
}

TEST_F(AdminAuditTest, AChangedRecordIsNamedAndTheCommandFails) {
  std::ifstream in(file_);
  std::string first, rest;
  std::getline(in, first);
  std::getline(in, rest, '\0');
  first.insert(first.size() - 1, " ");
  std::ofstream(file_) << first << "\n" << rest;
  EXPECT_EQ(Run({"admin", "audit", "verify", folder_}), 1);
  EXPECT_THAT(err(), HasSubstr(file_ + ":1: the record was changed"));
}

TEST_F(AdminAuditTest, AFolderWithoutALogIsNotFound) {
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(Run({"admin", "audit", "verify", state_.path()}), 3);
  EXPECT_THAT(err(), HasSubstr(state_.path()));
}

TEST_F(AdminAuditTest, TheLastRecordsAreShown) {
  ASSERT_EQ(Run({"admin", "audit", "tail", state_.path(), "-n", "2"}), 0)
      << err();
  EXPECT_THAT(out(), AllOf(::testing::StartsWith("{\"sequence\":2,"),
                           HasSubstr("\n{\"sequence\":3,")));
  EXPECT_EQ(Run({"admin", "audit", "tail", state_.path(), "-n", "0"}), 2);
  EXPECT_THAT(err(), HasSubstr("--lines"));
  EXPECT_EQ(Run({"admin", "audit", "tail", "--help"}), 0);
  EXPECT_THAT(out(), HasSubstr("audit tail --lines 100"));
}

}  // namespace
}  // namespace gpupool::client
