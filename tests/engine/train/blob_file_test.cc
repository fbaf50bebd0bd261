#include "engine/train/blob_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "engine/base/sha256.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

class BlobFileTest : public ::testing::Test {
 protected:
  size_t FileCount() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      count += entry.is_regular_file();
    }
    return count;
  }

  const ScratchFolder folder_;
  const std::string dir_ = folder_.path();
};

TEST_F(BlobFileTest, PartsAreStoredUnderTheDigestOfTheWhole) {
  auto blob = WriteBlob(dir_, {"ab", "", "c"});
  ASSERT_TRUE(blob.ok()) << blob.status();
  EXPECT_EQ(blob->sha256, Sha256Hex("abc"));
  EXPECT_EQ(blob->bytes, 3u);
  auto file = ReadBlob(dir_, blob->sha256);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->bytes(), "abc");
  EXPECT_EQ(FileCount(), 1u) << "no temporary file stays";
}

TEST_F(BlobFileTest, WritingAgainRenewsTheTimeOnly) {
  auto blob = WriteBlob(dir_, {"abc"});
  ASSERT_TRUE(blob.ok());
  const std::filesystem::path path = dir_ + "/" + blob->sha256;
  struct stat before, after;
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  std::filesystem::last_write_time(
      path, std::filesystem::last_write_time(path) - std::chrono::hours(5));
  ASSERT_TRUE(WriteBlob(dir_, {"abc"}).ok());
  ASSERT_EQ(stat(path.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_GE(after.st_mtime, before.st_mtime);
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(BlobFileTest, SpoiledBytesAreDataLoss) {
  auto blob = WriteBlob(dir_, {"abc"});
  ASSERT_TRUE(blob.ok());
  std::ofstream(dir_ + "/" + blob->sha256) << "abd";
  EXPECT_EQ(ReadBlob(dir_, blob->sha256).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(BlobFileTest, OnlyDigestsAreNames) {
  EXPECT_EQ(ReadBlob(dir_, "../x").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadBlob(dir_, std::string(64, '0')).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(BlobFileTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_FALSE(WriteBlob(dir_ + "/none", {"abc"}).ok());
}

}  // namespace
}  // namespace gpupool::engine
