#include "client/files/local_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace gpupool::client {
namespace {

class LocalFileTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void Write(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() /
       ("gpupool-local-file-" + std::to_string(::getpid())))
          .native();
};

TEST_F(LocalFileTest, DescribesSizeAndDigest) {
  Write("abc");
  auto facts = DescribeFile(path_);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->bytes, 3u);
  EXPECT_EQ(facts->sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(LocalFileTest, ChunksAreOneMebibyteAtMost) {
  Write(std::string((1 << 20) + 5, 'x'));
  auto file = LocalFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string chunk;
  ASSERT_TRUE(file->ReadChunk(chunk).ok());
  EXPECT_EQ(chunk.size(), size_t{1} << 20);
  ASSERT_TRUE(file->ReadChunk(chunk).ok());
  EXPECT_EQ(chunk, "xxxxx");
  ASSERT_TRUE(file->ReadChunk(chunk).ok());
  EXPECT_TRUE(chunk.empty());
}

TEST_F(LocalFileTest, ReadsFromTheByteThatWasSought) {
  Write("abcdef");
  auto file = LocalFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Seek(4).ok());
  std::string chunk;
  ASSERT_TRUE(file->ReadChunk(chunk).ok());
  EXPECT_EQ(chunk, "ef");
}

TEST_F(LocalFileTest, MissingEmptyAndFoldersAreErrors) {
  EXPECT_EQ(DescribeFile(path_).status().code(), absl::StatusCode::kNotFound);
  Write("");
  EXPECT_EQ(DescribeFile(path_).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DescribeFile("/tmp").status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Opening a pipe would wait for a writer, and /dev/zero never ends.
TEST_F(LocalFileTest, OnlyRegularFilesAreUploaded) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  for (const std::string& path : {path_, std::string("/dev/zero")}) {
    const absl::Status status = DescribeFile(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_NE(status.message().find(path + " is no regular file"),
              std::string::npos)
        << status;
  }
}

}  // namespace
}  // namespace gpupool::client
