#include "tls/authority_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/tls/test_authority.h"

namespace gpupool::tls {
namespace {

using ::testing::HasSubstr;

class AuthorityFolderTest : public ::testing::Test {
 protected:
  absl::Status Make(int days = 365) {
    return MakeAuthorityFolder(folder_, {"localhost", "127.0.0.1"},
                               {absl::Now(), days});
  }
  std::string File(const std::string& name) const {
    return folder_ + "/" + name;
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat facts = {};
    EXPECT_EQ(::stat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 07777;
  }

  server::TempDir parent_;
  const std::string folder_ = parent_ / "pki";
};

TEST_F(AuthorityFolderTest, HasWhatAServerNeeds) {
  ASSERT_TRUE(Make().ok());
  const auto files = ReadServerFiles(
      {File("server.pem"), File("server.key"), File("ca.pem")}, absl::Now());
  EXPECT_TRUE(files.ok()) << files.status();
}

TEST_F(AuthorityFolderTest, KeepsKeysToItsOwner) {
  ASSERT_TRUE(Make().ok());
  ASSERT_TRUE(AddClientTo(folder_, "mia", {absl::Now()}).ok());
  EXPECT_EQ(ModeOf(folder_), 0700u);
  for (const char* key : {"ca.key", "server.key", "mia.key"}) {
    EXPECT_EQ(ModeOf(File(key)), 0600u) << key;
  }
}

TEST_F(AuthorityFolderTest, OverwritesNothing) {
  ASSERT_TRUE(Make().ok());
  const std::string key = TextOfFile(File("ca.key"));
  const absl::Status again = Make();
  EXPECT_TRUE(absl::IsAlreadyExists(again));
  EXPECT_THAT(again.message(), HasSubstr(folder_ + " exists"));
  EXPECT_EQ(TextOfFile(File("ca.key")), key);
  ASSERT_TRUE(AddClientTo(folder_, "mia", {absl::Now()}).ok());
  const std::string mia = TextOfFile(File("mia.pem"));
  for (const char* name : {"mia", "ca", "server"}) {
    const absl::Status status = AddClientTo(folder_, name, {absl::Now()});
    EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(name));
  }
  EXPECT_EQ(TextOfFile(File("mia.pem")), mia);
  EXPECT_EQ(TextOfFile(File("ca.key")), key);
}

TEST_F(AuthorityFolderTest, LeavesNoKeyWithoutItsCertificate) {
  ASSERT_TRUE(Make().ok());
  std::ofstream(File("mia.pem")) << "of somebody else";
  EXPECT_TRUE(
      absl::IsAlreadyExists(AddClientTo(folder_, "mia", {absl::Now()})));
  EXPECT_FALSE(std::filesystem::exists(File("mia.key")));
  EXPECT_EQ(TextOfFile(File("mia.pem")), "of somebody else");
}

TEST_F(AuthorityFolderTest, WritesThroughNoLink) {
  ASSERT_TRUE(Make().ok());
  std::filesystem::create_symlink(parent_ / "elsewhere", File("mia.key"));
  EXPECT_TRUE(
      absl::IsAlreadyExists(AddClientTo(folder_, "mia", {absl::Now()})));
  EXPECT_FALSE(std::filesystem::exists(parent_ / "elsewhere"));
}

TEST_F(AuthorityFolderTest, IsValidForTheDaysThatAreAsked) {
  ASSERT_TRUE(Make(2).ok());
  const absl::Time now = absl::Now();
  EXPECT_TRUE(
      ReadPair(File("server.pem"), File("server.key"), now + absl::Hours(47))
          .ok());
  EXPECT_FALSE(
      ReadPair(File("server.pem"), File("server.key"), now + absl::Hours(49))
          .ok());
  EXPECT_TRUE(
      ReadAuthorities(File("ca.pem"), now + absl::Hours(24) * (kMostDays - 1))
          .ok());
}

TEST_F(AuthorityFolderTest, RefusesOtherDaysAndMakesNothing) {
  for (const int days : {-1, 0, kMostDays + 1}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Make(days))) << days;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      MakeAuthorityFolder(folder_, {"a b"}, {absl::Now()})));
  EXPECT_FALSE(std::filesystem::exists(folder_));
  EXPECT_TRUE(Make(kMostDays).ok());
}

TEST_F(AuthorityFolderTest, AClientNeedsTheAuthority) {
  EXPECT_TRUE(absl::IsNotFound(AddClientTo(folder_, "mia", {absl::Now()})));
  ASSERT_TRUE(Make().ok());
  EXPECT_TRUE(
      absl::IsInvalidArgument(AddClientTo(folder_, "../mia", {absl::Now()})));
}

TEST_F(AuthorityFolderTest, DoesNotUseAKeyThatOthersMayRead) {
  ASSERT_TRUE(Make().ok());
  ASSERT_EQ(::chmod(File("ca.key").c_str(), 0644), 0);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(AddClientTo(folder_, "mia", {absl::Now()})));
}

}  // namespace
}  // namespace gpupool::tls
