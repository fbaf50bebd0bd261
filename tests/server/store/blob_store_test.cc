#include "server/store/blob_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/base/sha256.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class BlobStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto store = BlobStore::Open(directory_ / "blobs");
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  std::unique_ptr<BlobWriter> Create(const std::string& announced) {
    auto writer =
        store_->Create(engine::Sha256Hex(announced), announced.size());
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }

  int Files() const {
    int files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(directory_ / "blobs")) {
      files += entry.is_regular_file();
    }
    return files;
  }

  TempDir directory_;
  std::unique_ptr<BlobStore> store_;
};

TEST_F(BlobStoreTest, BlobIsReadableAfterCommitOnly) {
  const std::string sha256 = engine::Sha256Hex("hello world");
  auto writer = Create("hello world");
  ASSERT_TRUE(writer->Append("hello ").ok());
  ASSERT_TRUE(writer->Append("world").ok());
  EXPECT_EQ(writer->bytes_written(), 11u);
  EXPECT_FALSE(store_->Contains(sha256));
  EXPECT_TRUE(absl::IsNotFound(store_->OpenBlob(sha256).status()));
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_TRUE(store_->Contains(sha256));
  EXPECT_EQ(*store_->Size(sha256), 11u);
  EXPECT_EQ(*store_->Read(sha256, 100), "hello world");
}

TEST_F(BlobStoreTest, OpenGivesTheBytes) {
  const auto sha256 = store_->Put("abc");
  ASSERT_TRUE(sha256.ok());
  const auto file = store_->OpenBlob(*sha256);
  ASSERT_TRUE(file.ok());
  char bytes[8];
  EXPECT_EQ(read(file->fd(), bytes, sizeof(bytes)), 3);
}

TEST_F(BlobStoreTest, AbandonedWriterLeavesNoFile) {
  {
    auto writer = Create("hello");
    ASSERT_TRUE(writer->Append("he").ok());
    EXPECT_EQ(Files(), 1);
  }
  EXPECT_EQ(Files(), 0);
}

TEST_F(BlobStoreTest, MoreBytesThanAnnouncedAreRefusedAtOnce) {
  auto writer = Create("hello");
  const absl::Status status = writer->Append("hello!");
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the 5"));
  EXPECT_FALSE(writer->Append("").ok());
  EXPECT_FALSE(writer->Commit().ok());
}

TEST_F(BlobStoreTest, FewerBytesThanAnnouncedAreRefused) {
  auto writer = Create("hello");
  ASSERT_TRUE(writer->Append("hell").ok());
  const absl::Status status = writer->Commit();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("only 4 of the 5"));
}

TEST_F(BlobStoreTest, WrongDigestIsRefusedWithBothDigests) {
  auto writer = Create("hello");
  ASSERT_TRUE(writer->Append("hallo").ok());
  const absl::Status status = writer->Commit();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(engine::Sha256Hex("hallo")));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(engine::Sha256Hex("hello")));
  writer.reset();
  EXPECT_EQ(Files(), 0);
}

TEST_F(BlobStoreTest, StoringTheSameBytesAgainIsHarmless) {
  const auto first = store_->Put("same");
  const auto second = store_->Put("same");
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(Files(), 1);
}

TEST_F(BlobStoreTest, EmptyBlobIsABlob) {
  const auto sha256 = store_->Put("");
  ASSERT_TRUE(sha256.ok()) << sha256.status();
  EXPECT_EQ(*store_->Size(*sha256), 0u);
}

TEST_F(BlobStoreTest, NameThatIsNoDigestNeverReachesTheDisk) {
  std::ofstream(directory_ / "secret") << "x";
  for (const char* name : {"../secret", "", ".", "ABCDEF"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(store_->OpenBlob(name).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(store_->Create(name, 1).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(store_->Delete(name)));
    EXPECT_FALSE(store_->Contains(name));
  }
}

TEST_F(BlobStoreTest, ReadNoticesFlippedBytesAndTooLargeBlobs) {
  const std::string sha256 = *store_->Put("precious");
  EXPECT_EQ(store_->Read(sha256, 7).status().code(),
            absl::StatusCode::kResourceExhausted);
  std::ofstream(directory_ / ("blobs/" + sha256)) << "preciouz";
  EXPECT_EQ(store_->Read(sha256, 100).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(BlobStoreTest, DeleteTwiceIsANoOp) {
  const std::string sha256 = *store_->Put("x");
  EXPECT_TRUE(store_->Delete(sha256).ok());
  EXPECT_TRUE(store_->Delete(sha256).ok());
  EXPECT_FALSE(store_->Contains(sha256));
}

TEST_F(BlobStoreTest, SweepRemovesOldUnreferencedAndTemporaryFilesOnly) {
  const std::string kept = *store_->Put("kept");
  const std::string lost = *store_->Put("lost");
  std::ofstream(directory_ / "blobs/.incoming-abc") << "partial";
  std::ofstream(directory_ / "blobs/README") << "not ours";
  auto young = store_->Sweep({kept}, absl::Hours(1), absl::Now());
  ASSERT_TRUE(young.ok());
  EXPECT_EQ(young->removed_files, 0u);
  auto swept =
      store_->Sweep({kept}, absl::Hours(1), absl::Now() + absl::Hours(2));
  ASSERT_TRUE(swept.ok());
  EXPECT_EQ(swept->removed_files, 2u);
  EXPECT_EQ(swept->removed_bytes, 11u);
  EXPECT_TRUE(store_->Contains(kept));
  EXPECT_FALSE(store_->Contains(lost));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "blobs/README"));
}

TEST_F(BlobStoreTest, FreeBytesAreKnown) {
  EXPECT_GT(*store_->FreeBytes(), 0u);
}

}  // namespace
}  // namespace gpupool::server
