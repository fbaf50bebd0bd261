#include "server/repository/confined_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConfinedFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/confinedXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    top_ = name;
    std::filesystem::create_directories(top_ / "root/sub");
    Write("root/file", "1234");
    Write("secret", "secret");
    folder_.emplace(*ConfinedFolder::Open((top_ / "root").string()));
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  void Write(const std::string& path, const std::string& text) {
    std::ofstream(top_ / path) << text;
  }
  void Mode(const std::string& path, mode_t mode) {
    ASSERT_EQ(chmod((top_ / path).c_str(), mode), 0);
  }
  void HardLink(const std::string& from, const std::string& to) {
    std::filesystem::create_hard_link(top_ / from, top_ / to);
  }
  void Link(const std::string& target, const std::string& path) {
    std::filesystem::create_symlink(target, top_ / "root" / path);
  }

  std::filesystem::path top_;
  std::optional<ConfinedFolder> folder_;
};

TEST_F(ConfinedFolderTest, ReadsWhatIsInside) {
  EXPECT_THAT(*folder_->List("."), ElementsAre("file", "sub"));
  EXPECT_EQ(*folder_->Read("file", 4), "1234");
  EXPECT_EQ(folder_->Look("file")->kind, EntryKind::kFile);
  EXPECT_EQ(folder_->Look("file")->stamp.bytes, 4u);
  EXPECT_EQ(folder_->Look("file")->stamp.name, "file");
  EXPECT_EQ(folder_->Look("sub")->kind, EntryKind::kFolder);
  EXPECT_EQ(*StampOf(*folder_->OpenFile("file"), "file"),
            folder_->Look("file")->stamp);
}

TEST_F(ConfinedFolderTest, LinksInsideAreFollowed) {
  Link("file", "inside");
  Link("../file", "sub/up");
  EXPECT_EQ(*folder_->Read("inside", 4), "1234");
  EXPECT_EQ(*folder_->Read("sub/up", 4), "1234");
}

TEST_F(ConfinedFolderTest, NothingLeadsOut) {
  Link("../secret", "relative");
  Link((top_ / "secret").string(), "absolute");
  Link("loop", "loop");
  for (const char* path :
       {"relative", "absolute", "loop", "../secret", "sub/../../secret"}) {
    const absl::Status refused = folder_->OpenFile(path).status();
    EXPECT_TRUE(absl::IsPermissionDenied(refused)) << path << ": " << refused;
    EXPECT_TRUE(absl::IsPermissionDenied(folder_->Look(path).status())) << path;
  }
  EXPECT_THAT(std::string(folder_->OpenFile("absolute").status().message()),
              HasSubstr("leads out of the model repository"));
}

TEST_F(ConfinedFolderTest, HardLinksOfTheFoldersOwnerAreRead) {
  Mode("secret", 0600);
  Mode("root/sub", 0755);
  HardLink("secret", "root/sub/linked");
  EXPECT_EQ(*folder_->Read("sub/linked", 6), "secret");
}

TEST_F(ConfinedFolderTest, HardLinksThatEverybodyMayReadAreRead) {
  Mode("secret", 0644);
  Mode("root/sub", 0777);
  HardLink("secret", "root/sub/linked");
  EXPECT_EQ(*folder_->Read("sub/linked", 6), "secret");
}

TEST_F(ConfinedFolderTest, HardLinksInAFolderOfAGroupAreReadIfTheGroupMay) {
  Mode("root/sub", 0775);
  HardLink("secret", "root/sub/linked");
  Mode("secret", 0660);
  EXPECT_EQ(*folder_->Read("sub/linked", 6), "secret");
  Mode("secret", 0600);
  EXPECT_TRUE(
      absl::IsPermissionDenied(folder_->OpenFile("sub/linked").status()));
}

TEST_F(ConfinedFolderTest, HardLinksThatOthersMayHaveMadeAreRefused) {
  Mode("secret", 0600);
  Mode("root/sub", 0777);
  HardLink("secret", "root/sub/linked");
  const absl::Status refused = folder_->OpenFile("sub/linked").status();
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("has 2 names"), HasSubstr("put a copy there")));
  std::filesystem::remove(top_ / "secret");
  EXPECT_EQ(*folder_->Read("sub/linked", 6), "secret");
}

TEST_F(ConfinedFolderTest, TheFolderThatCountsIsWhereALinkLeads) {
  Mode("secret", 0600);
  Mode("root", 0755);
  Mode("root/sub", 0777);
  HardLink("secret", "root/sub/linked");
  Link("sub/linked", "inside");
  EXPECT_TRUE(absl::IsPermissionDenied(folder_->OpenFile("inside").status()));
}

TEST_F(ConfinedFolderTest, HardLinksInAFolderOfAnotherUserAreRefused) {
  constexpr uid_t kNobody = 65534;
  Mode("secret", 0600);
  Mode("root/sub", 0755);
  HardLink("secret", "root/sub/linked");
  if (chown((top_ / "root/sub").c_str(), kNobody, kNobody) != 0) {
    GTEST_SKIP() << "only root can give folders away";
  }
  EXPECT_TRUE(
      absl::IsPermissionDenied(folder_->OpenFile("sub/linked").status()));
}

TEST_F(ConfinedFolderTest, SpecialFilesAreNotOpened) {
  ASSERT_EQ(mkfifo((top_ / "root/pipe").c_str(), 0600), 0);
  EXPECT_EQ(folder_->Look("pipe")->kind, EntryKind::kOther);
  EXPECT_TRUE(absl::IsFailedPrecondition(folder_->OpenFile("pipe").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(folder_->OpenFile("sub").status()));
}

TEST_F(ConfinedFolderTest, AFileAboveTheLimitIsNotRead) {
  EXPECT_TRUE(absl::IsResourceExhausted(folder_->Read("file", 3).status()));
}

TEST_F(ConfinedFolderTest, WhatIsNotThereIsNamed) {
  EXPECT_TRUE(absl::IsNotFound(folder_->OpenFile("other").status()));
  const auto missing = ConfinedFolder::Open((top_ / "other").string());
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr((top_ / "other").string()));
  EXPECT_FALSE(ConfinedFolder::Open((top_ / "secret").string()).ok());
}

}  // namespace
}  // namespace gpupool::server
