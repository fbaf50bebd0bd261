#include "server/store/blob_files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "server/store/blob_writer.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

TEST(BlobFilesTest, FullDisksAreExhausted) {
  errno = ENOSPC;
  EXPECT_TRUE(absl::IsResourceExhausted(FileError("writing")));
  errno = EIO;
  const absl::Status other = FileError("writing");
  EXPECT_TRUE(absl::IsInternal(other));
  EXPECT_THAT(std::string(other.message()), ::testing::HasSubstr("writing"));
}

TEST(BlobFilesTest, WritesAtThePlace) {
  TempDir folder;
  const std::string path = folder / "x";
  {
    const BlobFile file(open(path.c_str(), O_WRONLY | O_CREAT, 0600));
    ASSERT_TRUE(WriteAt(file.fd(), "abcdef", 0).ok());
    ASSERT_TRUE(WriteAt(file.fd(), "XY", 2).ok());
  }
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "abXYef");
}

TEST(BlobFilesTest, ListsAndSyncsAFolder) {
  TempDir folder;
  std::ofstream(folder / "x") << "1";
  const auto names = ListFolder(folder.path());
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names, ::testing::UnorderedElementsAre(".", "..", "x"));
  EXPECT_TRUE(SyncFolder(folder.path()).ok());
  EXPECT_FALSE(ListFolder(folder / "none").ok());
  EXPECT_FALSE(SyncFolder(folder / "none").ok());
}

}  // namespace
}  // namespace gpupool::server
