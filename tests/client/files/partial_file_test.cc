#include "client/files/partial_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace gpupool::client {
namespace {

class PartialFileTest : public ::testing::Test {
 protected:
  PartialFileTest() { std::filesystem::create_directory(folder_); }
  ~PartialFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Content() const {
    std::ostringstream content;
    content << std::ifstream(path_).rdbuf();
    return content.str();
  }
  size_t Files() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  const std::string folder_ =
      ::testing::TempDir() + "partial_file_" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path_ = folder_ + "/f";
};

TEST_F(PartialFileTest, AppearsWhenItIsKept) {
  auto file = PartialFile::Create(path_);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->Append("one "));
  EXPECT_TRUE(file->Append("two"));
  ASSERT_TRUE(file->Close().ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_TRUE(file->Keep().ok());
  EXPECT_EQ(Content(), "one two");
  EXPECT_EQ(file->bytes(), 7);
}

TEST_F(PartialFileTest, NothingIsLeftOfOneThatIsNotKept) {
  {
    auto file = PartialFile::Create(path_);
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE(file->Append("half"));
  }
  EXPECT_EQ(Files(), 0);
}

TEST_F(PartialFileTest, WhatIsNoFileIsNotReplaced) {
  for (const std::string& name :
       {folder_, std::string("/dev/null"), std::string("-")}) {
    const auto file = PartialFile::Create(name);
    EXPECT_TRUE(absl::IsInvalidArgument(file.status())) << name;
  }
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(PartialFileTest, TheFileThatALinkLeadsToIsReplaced) {
  std::ofstream(path_) << "old";
  const std::string link = folder_ + "/link";
  std::filesystem::create_symlink("f", link);
  auto file = PartialFile::Create(link);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Append("new") && file->Close().ok());
  ASSERT_TRUE(file->Replace().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(Content(), "new");
}

TEST_F(PartialFileTest, KeepWritesOverNothingAndReplaceDoes) {
  std::ofstream(path_) << "old";
  {
    auto file = PartialFile::Create(path_);
    ASSERT_TRUE(file->Append("new") && file->Close().ok());
    EXPECT_TRUE(absl::IsAlreadyExists(file->Keep()));
  }
  EXPECT_EQ(Content(), "old");
  {
    auto file = PartialFile::Create(path_);
    ASSERT_TRUE(file->Append("new") && file->Close().ok());
    ASSERT_TRUE(file->Replace().ok());
  }
  EXPECT_EQ(Content(), "new");
  EXPECT_EQ(Files(), 1);
}

TEST_F(PartialFileTest, FolderThatIsNotThereIsNotFound) {
  EXPECT_TRUE(
      absl::IsNotFound(PartialFile::Create(folder_ + "/none/f").status()));
}

TEST(PartialFile, FullDiskIsSaid) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  const std::string folder = ::testing::TempDir() + "partial_full";
  std::filesystem::create_directory(folder);
  std::filesystem::remove(folder + "/f.part");
  std::filesystem::create_symlink("/dev/full", folder + "/f.part");
  auto file = PartialFile::Create(folder + "/f");
  ASSERT_TRUE(file.ok());
  file->Append("does not fit");
  EXPECT_TRUE(absl::IsResourceExhausted(file->Close()));
}

}  // namespace
}  // namespace gpupool::client
