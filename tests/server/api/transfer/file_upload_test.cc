#include "server/api/transfer/file_upload.h"

#include <gtest/gtest.h>

#include "engine/base/sha256.h"
#include "server/api/validation/convert.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

class FileUploadTest : public ::testing::Test {
 protected:
  absl::StatusOr<FileUpload> Begin(uint64_t bytes, uint64_t limit) {
    return FileUpload::Begin(*blobs_, {engine::Sha256Hex("abc"), bytes}, limit);
  }

  TempDir directory_;
  std::unique_ptr<BlobStore> blobs_ = *BlobStore::Open(directory_ / "blobs");
};

TEST_F(FileUploadTest, TakesExactlyWhatWasAnnounced) {
  auto upload = Begin(3, 3);
  ASSERT_TRUE(upload.ok()) << upload.status();
  EXPECT_TRUE(upload->Append("a").ok());
  EXPECT_TRUE(upload->Append("bc").ok());
  EXPECT_TRUE(upload->Finish().ok());
  EXPECT_TRUE(blobs_->Contains(engine::Sha256Hex("abc")));
}

TEST_F(FileUploadTest, LimitsAreNamed) {
  EXPECT_EQ(Begin(0, 3).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Begin(3, 3).ok());
  const absl::Status larger = Begin(4, 3).status();
  EXPECT_EQ(larger.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(larger.message()),
            "the file has 4 bytes, this server takes at most 3; start gpupoold "
            "with a larger --model-limit");
  EXPECT_EQ(Begin(uint64_t{1} << 60, UINT64_MAX).status().code(),
            absl::StatusCode::kResourceExhausted)
      << "the disk is smaller";
  EXPECT_EQ(FileUpload::Begin(*blobs_, {"../x", 1}, 3).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(FileUploadTest, ChunksAreNeitherEmptyNorLarge) {
  auto upload = Begin(uint64_t{4} << 20, uint64_t{1} << 30);
  ASSERT_TRUE(upload.ok()) << upload.status();
  EXPECT_FALSE(upload->Append("").ok());
  EXPECT_FALSE(upload->Append(std::string(kMaxChunkBytes + 1, 'x')).ok());
  EXPECT_TRUE(upload->Append(std::string(kMaxChunkBytes, 'x')).ok());
  EXPECT_FALSE(upload->Finish().ok()) << "bytes lack";
}

TEST_F(FileUploadTest, AKeyKeepsTheBytesOfABrokenUpload) {
  v1::UploadPart part;
  part.set_upload_key(std::string(32, 'a'));
  const FileUpload::Announced file = {engine::Sha256Hex("abc"), 3, part};
  {
    auto upload = FileUpload::Begin(*blobs_, file, 3);
    ASSERT_TRUE(upload.ok()) << upload.status();
    ASSERT_TRUE(upload->Append("ab").ok());
  }
  part.set_offset(2);
  auto upload =
      FileUpload::Begin(*blobs_, {engine::Sha256Hex("abc"), 3, part}, 3);
  ASSERT_TRUE(upload.ok()) << upload.status();
  ASSERT_TRUE(upload->Append("c").ok());
  EXPECT_TRUE(upload->Finish().ok());
  EXPECT_TRUE(blobs_->Contains(engine::Sha256Hex("abc")));
}

TEST_F(FileUploadTest, OnlyAnswersThatStayTheSameAreFinal) {
  EXPECT_TRUE(IsFinalAnswer(absl::OkStatus()));
  EXPECT_TRUE(IsFinalAnswer(absl::InvalidArgumentError("line 3")));
  EXPECT_TRUE(IsFinalAnswer(absl::AlreadyExistsError("taken")));
  EXPECT_FALSE(IsFinalAnswer(absl::UnavailableError("stopping")));
  EXPECT_FALSE(IsFinalAnswer(absl::ResourceExhaustedError("full")));
  EXPECT_FALSE(IsFinalAnswer(absl::CancelledError("gone")));
  EXPECT_FALSE(IsFinalAnswer(absl::DeadlineExceededError("idle")));
}

}  // namespace
}  // namespace gpupool::server
