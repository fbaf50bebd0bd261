#include "server/api/transfer/dataset_upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/base/sha256.h"
#include "server/api/validation/convert.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class DatasetUploadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    blobs_ = *BlobStore::Open(directory_ / "blobs");
    upload_ = std::make_unique<DatasetUpload>(blobs_.get(), kLimit);
  }

  static v1::UploadDatasetRequest Header(
      const std::vector<std::string>& contents) {
    v1::UploadDatasetRequest message;
    auto* header = message.mutable_header();
    header->set_name("digits");
    for (const std::string& content : contents) {
      v1::DatasetFile* file = header->add_files();
      file->set_file_name(contents.size() == 1 ? "d.csv" : "d.npy");
      file->set_total_bytes(content.size());
      file->set_sha256(engine::Sha256Hex(content));
    }
    return message;
  }

  static v1::UploadDatasetRequest Chunk(uint32_t file,
                                        const std::string& data) {
    v1::UploadDatasetRequest message;
    message.mutable_chunk()->set_file_index(file);
    message.mutable_chunk()->set_data(data);
    return message;
  }

  void Take(const v1::UploadDatasetRequest& message) {
    const absl::Status status = upload_->Take(message);
    ASSERT_TRUE(status.ok()) << status;
  }

  void Refused(const absl::Status& status,
               const std::vector<std::string>& fragments) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    for (const std::string& fragment : fragments) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(fragment));
    }
  }

  int Files() const {
    return static_cast<int>(std::distance(
        std::filesystem::directory_iterator(directory_ / "blobs"), {}));
  }

  static constexpr uint64_t kLimit = uint64_t{4} << 20;
  TempDir directory_;
  std::unique_ptr<BlobStore> blobs_;
  std::unique_ptr<DatasetUpload> upload_;
};

TEST_F(DatasetUploadTest, FilesAreBlobsAfterFinishOnly) {
  Take(Header({"features", "labels"}));
  Take(Chunk(0, "feat"));
  Take(Chunk(0, "ures"));
  Take(Chunk(1, "labels"));
  EXPECT_FALSE(blobs_->Contains(engine::Sha256Hex("features")));
  const auto dataset = upload_->Finish();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->name(), "digits");
  EXPECT_EQ(dataset->layout().format(), v1::NPY);
  EXPECT_EQ(dataset->files(1).role(), v1::DatasetFile::LABELS);
  EXPECT_TRUE(blobs_->Contains(engine::Sha256Hex("features")));
  EXPECT_TRUE(blobs_->Contains(engine::Sha256Hex("labels")));
}

TEST_F(DatasetUploadTest, HeaderComesFirstAndOnce) {
  Refused(upload_->Take(Chunk(0, "x")), {"header"});
  Refused(upload_->Take(v1::UploadDatasetRequest()), {"neither"});
  Refused(upload_->Finish().status(), {"header"});
  Take(Header({"x"}));
  Refused(upload_->Take(Header({"x"})), {"twice"});
}

TEST_F(DatasetUploadTest, ChunksKeepTheOrderOfTheFiles) {
  Take(Header({"ab", "cd"}));
  Take(Chunk(1, "c"));
  Refused(upload_->Take(Chunk(0, "a")), {"file 0", "file 1"});
  Refused(upload_->Take(Chunk(2, "a")), {"file 2", "2 files"});
}

TEST_F(DatasetUploadTest, AParquetFileIsRefusedAtItsFirstChunk) {
  const std::string parquet("PAR1\x15\x04\x15\x00", 8);
  Take(Header({parquet}));
  Refused(upload_->Take(Chunk(0, parquet)), {"d.csv", "a Parquet file"});
}

TEST_F(DatasetUploadTest, OnlyTheBeginningOfAFileTellsItsFormat) {
  const std::string parquet("PAR1\x15\x04\x15\x00", 8);
  Take(Header({"x" + parquet, parquet}));
  Take(Chunk(0, "x"));
  Take(Chunk(0, parquet));
  Refused(upload_->Take(Chunk(1, parquet)), {"d.npy", "a Parquet file"});
}

TEST_F(DatasetUploadTest, ChunkHasOneByteToOneMebibyte) {
  Take(Header({std::string(kMaxChunkBytes + 1, 'x')}));
  Refused(upload_->Take(Chunk(0, "")), {"0 bytes"});
  Refused(upload_->Take(Chunk(0, std::string(kMaxChunkBytes + 1, 'x'))),
          {"1048577", "1048576"});
}

TEST_F(DatasetUploadTest, WrongBytesAreRefusedWithTheFileAndLeaveNothing) {
  Take(Header({"hello"}));
  Take(Chunk(0, "hallo"));
  Refused(upload_->Finish().status(), {"d.csv", "sha256"});
  upload_.reset();
  EXPECT_EQ(Files(), 0);
}

TEST_F(DatasetUploadTest, MissingAndSurplusBytesAreRefused) {
  Take(Header({"hello"}));
  Refused(upload_->Take(Chunk(0, "hello!")), {"d.csv", "the 5"});
  upload_ = std::make_unique<DatasetUpload>(blobs_.get(), kLimit);
  Take(Header({"hello"}));
  Take(Chunk(0, "hell"));
  Refused(upload_->Finish().status(), {"only 4 of the 5"});
}

TEST_F(DatasetUploadTest, FilesWithKeysGoOnWhereTheyEnd) {
  auto header = Header({"features", "labels"});
  header.mutable_header()->add_parts()->set_upload_key(std::string(32, 'a'));
  header.mutable_header()->add_parts()->set_upload_key(std::string(32, 'b'));
  Take(header);
  Take(Chunk(0, "features"));
  Take(Chunk(1, "lab"));
  upload_ = std::make_unique<DatasetUpload>(blobs_.get(), kLimit);
  header.mutable_header()->mutable_parts(0)->set_offset(8);
  header.mutable_header()->mutable_parts(1)->set_offset(3);
  Take(header);
  Take(Chunk(1, "els"));
  const auto dataset = upload_->Finish();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_TRUE(blobs_->Contains(engine::Sha256Hex("features")));
  EXPECT_TRUE(blobs_->Contains(engine::Sha256Hex("labels")));
  upload_->ForgetAfter(absl::UnavailableError("not stored yet"));
  EXPECT_TRUE(blobs_->partials().Find(std::string(32, 'a')).ok());
  upload_->ForgetAfter(absl::OkStatus());
  upload_.reset();
  EXPECT_FALSE(blobs_->partials().Find(std::string(32, 'a')).ok());
}

TEST_F(DatasetUploadTest, PartsFitTheFiles) {
  auto header = Header({"features", "labels"});
  header.mutable_header()->add_parts();
  Refused(upload_->Take(header), {"parts has 1 entries for 2 files"});
}

TEST_F(DatasetUploadTest, TooLargeIsRefusedBeforeAnyByteComes) {
  auto header = Header({"x"});
  header.mutable_header()->mutable_files(0)->set_total_bytes(kLimit + 1);
  EXPECT_EQ(upload_->Take(header).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Files(), 0);
  upload_ = std::make_unique<DatasetUpload>(blobs_.get(), UINT64_MAX);
  header.mutable_header()->mutable_files(0)->set_total_bytes(UINT64_MAX / 2);
  const absl::Status status = upload_->Take(header);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("disk"));
}

}  // namespace
}  // namespace gpupool::server
